"""What a run holds once it is written: rows, tables, archives, and how they are found, read and made again."""
