"""Data for sysconfig; nothing can be built here."""

build_time_vars = {"EXT_SUFFIX": ".so", "Py_GIL_DISABLED": 0, "TZPATH": "/lib/timezones"}
