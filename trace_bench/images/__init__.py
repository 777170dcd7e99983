"""Images, one per benchmark family: built from pinned recipes, locked where they are built, pulled or pushed.

Words: a **recipe** is all that an image is made of, as content hashes; its **key** identifies the image; a
**base** is the image with an interpreter that every family stands on; a **pin** says which image a family
runs in; **drift** is the difference between a pin and the recipe of today. See ``docs/how-to/images.md``.
"""
