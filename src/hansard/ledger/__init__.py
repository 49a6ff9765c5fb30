"""The proof: formats and checks that need the standard library and nothing else.

Zip this folder alone and it runs as a verifier. It knows neither stores nor keys that sign; whatever it reads is
untrusted bytes.
"""
