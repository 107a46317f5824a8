"""What an index is asked (conditions on keys), what it answers, and how answers of one or many combine."""
