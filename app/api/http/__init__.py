"""What all endpoints share of HTTP: paths, JSON, ``Accept``, problems, and the headers of every answer."""
