"""Where a request goes: the lanes that there are, and the routes among them."""
