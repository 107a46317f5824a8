"""The server around the application: its connections, its end, and several processes of it."""
