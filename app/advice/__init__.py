"""Advice about the file indexes of whole tables: what they cost, what they spare, what others would."""
