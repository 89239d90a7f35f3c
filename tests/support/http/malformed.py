"""Requests that other servers or proxies read otherwise, or not at all, and the status with which ours refuses each."""

from __future__ import annotations

HOST = b"Host: h\r\n"
LINES: dict[str, tuple[bytes, int]] = {
    "RTSP": (b"POST /shop/orders RTSP/1.0", 400),
    "ICE": (b"POST /shop/orders ICE/1.0", 400),
    "two blanks before the target": (b"POST  /shop/orders HTTP/1.1", 400),
    "two blanks before the version": (b"POST /shop/orders  HTTP/1.1", 400),
    "a blank at the end": (b"POST /shop/orders HTTP/1.1 ", 400),
    "a blank in front": (b" POST /shop/orders HTTP/1.1", 400),
    "tabs": (b"POST\t/shop/orders\tHTTP/1.1", 400),
    "no version": (b"POST /shop/orders", 400),
    "HTTP/0.9": (b"GET /shop/orders HTTP/0.9", 505),
    "another version": (b"POST /shop/orders HTTP/2.0", 505),
    "a version of two digits": (b"POST /shop/orders HTTP/1.10", 400),
    "lower case": (b"POST /shop/orders http/1.1", 400),
    "a method in lower case": (b"post /shop/orders HTTP/1.1", 400),
    "an odd method": (b"PO(ST /shop/orders HTTP/1.1", 400),
    "another scheme": (b"POST gopher://h/shop/orders HTTP/1.1", 400),
    "another host than the Host": (b"POST http://other/shop/orders HTTP/1.1", 400),
    "userinfo": (b"POST http://me@h/shop/orders HTTP/1.1", 400),
    "no slash": (b"POST shop/orders HTTP/1.1", 400),
    "an asterisk but for OPTIONS": (b"POST * HTTP/1.1", 400),
    "a fragment": (b"POST /shop/orders#x HTTP/1.1", 400),
    "a backslash": (b"POST /shop\\orders HTTP/1.1", 400),
    "a quote": (b'POST /shop/"orders HTTP/1.1', 400),
    "NUL": (b"POST /shop/or\0ders HTTP/1.1", 400),
    "not ASCII": (b"POST /shop/\xc3\xb6rders HTTP/1.1", 400),
    "CONNECT": (b"CONNECT h:80 HTTP/1.1", 405),
}
HEADERS: dict[str, tuple[bytes, int]] = {
    "no Host": (b"x: y\r\n", 400),
    "two Hosts": (HOST + HOST, 400),
    "a Host with a user": (b"Host: me@h\r\n", 400),
    "a Host with a path": (b"Host: h/x\r\n", 400),
    "a Host with a blank": (b"Host: h h\r\n", 400),
    "a Host that is not ASCII": (b"Host: \xc3\xb6\r\n", 400),
    "a folded line": (HOST + b"x: y\r\n z\r\n", 400),
    "a folded first line": (b" x: y\r\n" + HOST, 400),
    "a bare CR": (HOST + b"x: y\rz\r\n", 400),
    "a bare LF": (HOST + b"x: y\n", 400),
    "a blank before the colon": (HOST + b"x : y\r\n", 400),
    "a tab before the colon": (HOST + b"x\t: y\r\n", 400),
    "no colon": (HOST + b"x\r\n", 400),
    "no name": (HOST + b": y\r\n", 400),
    "a name that is not ASCII": (HOST + b"\xc3\xb6: y\r\n", 400),
    "NUL in a value": (HOST + b"x: \0\r\n", 400),
    "a control character in a value": (HOST + b"x: \x01\r\n", 400),
    "the same length twice": (HOST + b"Content-Length: 0\r\nContent-Length: 0\r\n", 400),
    "two lengths": (HOST + b"Content-Length: 0\r\nContent-Length: 1\r\n", 400),
    "a list of lengths": (HOST + b"Content-Length: 0, 0\r\n", 400),
    "a length with a sign": (HOST + b"Content-Length: +0\r\n", 400),
    "an empty length": (HOST + b"Content-Length:\r\n", 400),
    "a length and chunks": (HOST + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", 400),
    "chunks and a length": (HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", 400),
    "chunked twice": (HOST + b"Transfer-Encoding: chunked, chunked\r\n", 400),
    "chunked in two headers": (HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
    "another coding": (HOST + b"Transfer-Encoding: gzip\r\n", 501),
    "another coding in front": (HOST + b"Transfer-Encoding: gzip, chunked\r\n", 501),
    "chunked and not the last": (HOST + b"Transfer-Encoding: chunked, identity\r\n", 400),
    "chunked behind a vertical tab": (HOST + b"Transfer-Encoding: \x0bchunked\r\n", 400),
    "chunked with a parameter": (HOST + b"Transfer-Encoding: chunked;q=1\r\n", 501),
}
OF_1_0: dict[str, tuple[bytes, int]] = {
    "chunks in HTTP/1.0": (b"Transfer-Encoding: chunked\r\n", 400),
}
CHUNKS: dict[str, tuple[bytes, int]] = {
    "a bare LF behind the size": (b"1\na\r\n0\r\n\r\n", 400),
    "a blank behind the size": (b"1 \r\na\r\n0\r\n\r\n", 400),
    "a size with 0x": (b"0x1\r\na\r\n0\r\n\r\n", 400),
    "a size with a sign": (b"+1\r\na\r\n0\r\n\r\n", 400),
    "no size": (b"\r\n0\r\n\r\n", 400),
    "a bare LF in an extension": (b"1;x\ny\r\na\r\n0\r\n\r\n", 400),
    "a bare CR in an extension": (b"1;x\ry\r\na\r\n0\r\n\r\n", 400),
    "a bare LF behind the data": (b"1\r\na\n0\r\n\r\n", 400),
    "more data than said": (b"1\r\nab\r\n0\r\n\r\n", 400),
    "a folded trailer": (b"0\r\nx: y\r\n z\r\n\r\n", 400),
}


def requests(verb: bytes = b"POST /shop/orders") -> dict[str, tuple[bytes, int]]:
    """Each whole request by its fault, with the status that it gets."""
    start = verb + b" HTTP/1.1\r\n"
    chunked = start + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    return {
        **{name: (line + b"\r\n" + HOST + b"\r\n", status) for name, (line, status) in LINES.items()},
        **{name: (start + lines + b"\r\n", status) for name, (lines, status) in HEADERS.items()},
        **{name: (verb + b" HTTP/1.0\r\n" + lines + b"\r\n", status) for name, (lines, status) in OF_1_0.items()},
        **{f"{name}, in chunks": (chunked + body, status) for name, (body, status) in CHUNKS.items()},
        "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        "a bare LF behind the line": (verb + b" HTTP/1.1\n" + HOST + b"\r\n", 400),
        "LF in front": (b"\n" + start + HOST + b"\r\n", 400),
        "two empty lines in front": (b"\r\n\r\n" + start + HOST + b"\r\n", 400),
        "an empty line that ends in LF": (start + HOST + b"\n", 400),
    }
