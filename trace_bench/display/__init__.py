"""Tables as values, their renderers, and the one place where text is masked and escaped on its way out."""
