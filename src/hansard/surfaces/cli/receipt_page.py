"""A receipt as one HTML file that checks itself in a browser: the modules of the dashboard's verifier, carried along."""

import json
from base64 import b64encode
from html import escape
from importlib.resources import files

MODULES = ("bytes", "entry", "merkle", "note", "seals", "receipt", "telling", "standalone")
POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"
PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
<script type="importmap">{modules}</script>
<main>
<h1>A receipt</h1>
<p>It proves that one entry stands in a signed log. This page works that out here, with the browser's own cryptography, and asks
nobody; but it came from whoever gave you the receipt. Against somebody who lies, run <code>hansard verify</code> on this file,
on a machine of yours.</p>
<h2>What this browser found</h2>
<noscript><p class="bad">This needs JavaScript; <code>hansard verify</code> does not.</p></noscript>
<div id="result" role="status"></div>
<form id="pin-form" class="stack">
<label for="pin">The log's pin, which you have from elsewhere</label>
<input id="pin" autocomplete="off" spellcheck="false" placeholder="name+0a1b2c3d+key@genesis">
<label for="witnesses">Keys of witnesses whose word you want on it, if any</label>
<input id="witnesses" autocomplete="off" spellcheck="false" placeholder="name+0a1b2c3d+key">
<div class="actions"><button>Check against it</button> <button type="button" id="save">Save the receipt</button></div>
</form>
</main>
<script type="text/plain" id="receipt">{receipt}</script>
<script type="module">import "standalone.js";</script>
</html>
"""


def receipt_page(receipt: str, title: str) -> str:
    """The page of a receipt."""
    static = files("hansard.surfaces.http.dashboard") / "static"
    modules = {f"{name}.js": _module((static / f"{name}.js").read_text("utf-8")) for name in MODULES}
    return PAGE.format(
        policy=escape(POLICY),
        title=escape(title),
        style=(static / "style.css").read_text("utf-8"),
        modules=json.dumps({"imports": modules}),
        receipt=b64encode(receipt.encode()).decode(),
    )


def _module(source: str) -> str:
    """A module as an address. Modules of this kind have no neighbours, so they are imported by name."""
    named = source.replace('from "./', 'from "')
    return f"data:text/javascript;base64,{b64encode(named.encode()).decode()}"
