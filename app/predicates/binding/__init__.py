"""Binds predicates to columns (:func:`~app.predicates.binding.binding.bind`): names, literals, zones."""
