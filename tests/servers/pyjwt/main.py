#!/usr/bin/env python3
"""pyjwt is a relying party for the tests, built on PyJWT's PyJWKClient.

It knows an issuer URL, an audience and a CA, and says of each token on its standard input whether it accepts it. The
line `advance SECONDS` moves the clock that PyJWT's caches and cooldowns go by.
"""

import argparse
import json
import ssl
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

_advanced = 0.0
_monotonic = time.monotonic
# Before PyJWT is imported, so that it is this clock that it reads.
time.monotonic = lambda: _monotonic() + _advanced

import jwt  # noqa: E402


def main() -> None:
    global _advanced
    parser = argparse.ArgumentParser()
    for name in ("issuer", "audience", "ca"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    context = ssl.create_default_context(cafile=args.ca)
    url = args.issuer + "/.well-known/openid-configuration"
    with urllib.request.urlopen(url, timeout=10, context=context) as answer:
        discovery = json.load(answer)
    if discovery["issuer"] != args.issuer:
        sys.exit(f"pyjwt: {url} names the issuer {discovery['issuer']}")
    client = jwt.PyJWKClient(discovery["jwks_uri"], ssl_context=context, timeout=10)
    say({"ready": True})
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "advance":
            _advanced += float(rest[0])
            say({"accepted": True})
        else:
            say(judge(client, word, args))


def judge(client: jwt.PyJWKClient, token: str, args: argparse.Namespace) -> dict:
    try:
        key = client.get_signing_key_from_jwt(token)
        claims = jwt.decode(
            token,
            key,
            algorithms=["RS256", "ES256", "ES384", "ES512"],
            audience=args.audience,
            issuer=args.issuer,
        )
    except jwt.PyJWTError as error:
        return {"accepted": False, "error": f"{type(error).__name__}: {error}"}
    return {"accepted": True, "subject": claims["sub"]}


def say(answer: dict) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
