"""Advice about a server that cannot be reached: what the caller may have said wrongly."""

import ssl

from rote.client.replies import Silent


def advice(error: Exception, *, is_tls: bool, has_answered: bool) -> str:
    """Return the end of the message about a line that broke; nothing where nobody knows better.

    has_answered  whether this server has answered before: then its URL is right
    """
    if isinstance(error, ConnectionRefusedError):
        return "; nobody listens there: start the server, or mend the port in its URL"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "; SSL_CERT_FILE in the environment names a file of certificates that are trusted"
    if has_answered:
        return ""
    if isinstance(error, ssl.SSLError):
        return "; if it does not serve HTTPS, its URL begins with http://"
    if isinstance(error, Silent) and not is_tls:
        return "; if it serves HTTPS, its URL begins with https://"
    return ""
