"""Who looks at the dashboard: a token in a cookie that only these pages take, and the form token that belongs to it.

Knows no tokens: whether one is good, the guard asks where it asks for every other caller. The cookie's path keeps it away
from the API, so that a page of somebody else's could do nothing there even if a browser let it.
"""

import hashlib
import hmac
import re
import secrets
from urllib.parse import quote

ROOT = "/dashboard"
SIGN_IN, SIGN_OUT = f"{ROOT}/sign-in", f"{ROOT}/sign-out"
STATIC, DATA = f"{ROOT}/static/", f"{ROOT}/data/"
COOKIE = "hansard"
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,200}")
_SENT = re.compile(rf"({ROOT}/(?:gates|(?:runs|deliberations)/[^/]+))/.+")
_PLACE = re.compile(rf"({ROOT}/[A-Za-z0-9/_-]*)(?:\?[A-Za-z0-9%=&+.,:@/_~*-]*)?")


def is_page(path: str) -> bool:
    """Whether this is of the dashboard: such a path takes the cookie, and no other does."""
    return path == ROOT or path.startswith(f"{ROOT}/")


def is_seen(path: str) -> bool:
    """Whether somebody looks at what comes of this path: whatever it is, it is a page."""
    return path == "/" or (is_page(path) and not path.startswith((STATIC, DATA)))


def is_open(path: str) -> bool:
    """What a browser needs before anybody has signed in."""
    return path in ("/", SIGN_IN) or path.startswith(STATIC)


def secret_of(cookies: list[bytes]) -> str:
    """The token in the cookie; empty where there is none."""
    return _parts(cookies)[1]


def form_token(cookies: list[bytes]) -> str:
    """What a form of this session must bring along: nobody can make it who does not know the cookie."""
    nonce, secret = _parts(cookies)
    return hmac.new(secret.encode(), b"hansard-form/v1\n" + nonce.encode(), hashlib.sha256).hexdigest()


def cookie_of(secret: str, *, https: bool) -> str | None:
    """The cookie that signs somebody in; None where no token looks like this."""
    if not _SECRET.fullmatch(secret):
        return None
    return _cookie(f"{secrets.token_urlsafe(16)}.{secret}", https=https)


def no_cookie() -> str:
    """What takes the cookie away again."""
    return _cookie("", https=False) + "; Max-Age=0"


def sign_in_at(place: str, *, again: bool) -> str:
    """Where somebody signs in who wanted to see this."""
    return f"{SIGN_IN}?to={quote(safe_place(place))}" + ("&again=1" if again else "")


def sign_in_for(path: str, *, again: bool) -> str:
    """The same for somebody who sent a form there: he is led to the page where it stood, and told that nothing came of it."""
    found = _SENT.fullmatch(path)
    return sign_in_at(found[1], again=again) + "&undone=1" if found else sign_in_at(ROOT, again=again)


def safe_place(place: str) -> str:
    """A path of the dashboard with its query, or its beginning where it is none: nobody is sent anywhere else after signing in."""
    found = _PLACE.fullmatch(place)
    return place if found and "//" not in found[1] and not place.startswith(DATA) else f"{ROOT}/"


def _cookie(value: str, *, https: bool) -> str:
    return f"{COOKIE}={value}; Path={ROOT}; HttpOnly; SameSite=Strict" + ("; Secure" if https else "")


def _parts(cookies: list[bytes]) -> tuple[str, str]:
    """Nonce and secret. Other programs on this machine share our name and may leave cookies of any form: those are passed over."""
    for each in b";".join(cookies).decode("latin-1").split(";"):
        name, _, value = each.strip().partition("=")
        if name == COOKIE:
            nonce, _, secret = value.partition(".")
            return nonce, secret
    return "", ""
