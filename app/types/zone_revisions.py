"""Years in which releases of the IANA database give a zone different offsets, since 1970.

Made by ``tests/golden/zone_revisions/make.py``; make it again when ``tzdata`` gets a new release.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FIRST_RELEASE: Final = "2020a"
LAST_RELEASE: Final = "2026c"
LAST_RELEASED: Final = (2026, 7)
"""Year and month in which that was."""

REVISIONS: Final[Mapping[str, tuple[tuple[int, int | None], ...]]] = {
    "Africa/Cairo": ((2023, None),),
    "Africa/Casablanca": (
        (2023, 2023),
        (2026, None),
    ),
    "Africa/El_Aaiun": (
        (2023, 2023),
        (2026, None),
    ),
    "Africa/Juba": ((2021, None),),
    "America/Asuncion": ((2025, None),),
    "America/Bahia_Banderas": (
        (1970, 1970),
        (2023, None),
    ),
    "America/Bogota": ((1993, 1993),),
    "America/Cambridge_Bay": ((1972, 1979),),
    "America/Cancun": (
        (1981, 1981),
        (1983, 1997),
    ),
    "America/Chihuahua": ((2022, None),),
    "America/Edmonton": ((2026, None),),
    "America/Ensenada": ((1970, 1975),),
    "America/Godthab": ((2023, None),),
    "America/Guyana": (
        (1975, 1975),
        (1991, 1992),
    ),
    "America/Hermosillo": ((1970, 1970),),
    "America/Inuvik": ((1972, 1979),),
    "America/Iqaluit": ((1972, 1979),),
    "America/Mazatlan": (
        (1970, 1970),
        (2023, None),
    ),
    "America/Merida": (
        (1981, 1982),
        (2023, None),
    ),
    "America/Mexico_City": ((2023, None),),
    "America/Monterrey": ((2023, None),),
    "America/Nipigon": ((1970, 1973),),
    "America/Nuuk": ((2023, None),),
    "America/Ojinaga": ((2022, None),),
    "America/Pangnirtung": ((1970, 1995),),
    "America/Rainy_River": ((1970, 1973),),
    "America/Rankin_Inlet": ((1972, 1979),),
    "America/Resolute": ((1972, 1979),),
    "America/Santa_Isabel": ((1970, 1975),),
    "America/Santiago": ((2022, 2022),),
    "America/Scoresbysund": ((2024, None),),
    "America/Thunder_Bay": ((1973, 1973),),
    "America/Tijuana": ((1970, 1975),),
    "America/Vancouver": ((2026, None),),
    "America/Yellowknife": (
        (1972, 1979),
        (2026, None),
    ),
    "Antarctica/Casey": ((2018, None),),
    "Antarctica/Macquarie": ((2011, None),),
    "Antarctica/Vostok": ((1970, None),),
    "Asia/Almaty": ((2024, None),),
    "Asia/Amman": ((2022, None),),
    "Asia/Beirut": ((2023, 2023),),
    "Asia/Choibalsan": ((1983, 2008),),
    "Asia/Damascus": ((2022, None),),
    "Asia/Gaza": (
        (1980, 1980),
        (1984, 1985),
        (2020, None),
    ),
    "Asia/Hebron": (
        (1980, 1980),
        (1984, 1985),
        (2020, None),
    ),
    "Asia/Jerusalem": (
        (1980, 1980),
        (1984, 1985),
    ),
    "Asia/Manila": (
        (1977, 1978),
        (1990, 1990),
    ),
    "Asia/Qostanay": ((2024, None),),
    "Asia/Tehran": (
        (1977, 1979),
        (2023, None),
    ),
    "Asia/Tel_Aviv": (
        (1980, 1980),
        (1984, 1985),
    ),
    "Atlantic/Azores": (
        (1977, 1981),
        (1992, 1993),
    ),
    "Atlantic/Madeira": ((1977, 1986),),
    "Australia/Currie": ((1970, 1971),),
    "Canada/Mountain": ((2026, None),),
    "Canada/Pacific": ((2026, None),),
    "Chile/Continental": ((2022, 2022),),
    "Chile/EasterIsland": ((2022, 2022),),
    "EET": ((1975, 1980),),
    "Egypt": ((2023, None),),
    "Europe/Budapest": ((1980, 1983),),
    "Europe/Chisinau": ((2022, None),),
    "Europe/Kiev": ((1995, 1996),),
    "Europe/Lisbon": ((1978, 1985),),
    "Europe/Tiraspol": ((2022, None),),
    "Europe/Uzhgorod": (
        (1990, 1991),
        (1995, 1996),
    ),
    "Europe/Volgograd": ((2020, None),),
    "Europe/Zaporozhye": (
        (1990, 1990),
        (1995, 1996),
    ),
    "Iran": (
        (1977, 1979),
        (2023, None),
    ),
    "Israel": (
        (1980, 1980),
        (1984, 1985),
    ),
    "Mexico/BajaNorte": ((1970, 1975),),
    "Mexico/BajaSur": (
        (1970, 1970),
        (2023, None),
    ),
    "Mexico/General": ((2023, None),),
    "Pacific/Apia": ((2021, None),),
    "Pacific/Easter": ((2022, 2022),),
    "Pacific/Efate": (
        (1973, 1974),
        (1984, 1984),
    ),
    "Pacific/Fiji": ((2020, None),),
    "Pacific/Niue": ((1970, 1978),),
    "Portugal": ((1978, 1985),),
    "WET": (
        (1970, 1977),
        (1981, 1985),
        (1992, 1996),
    ),
}
