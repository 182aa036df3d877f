"""A small Hub on loopback for tests: the endpoints that `huggingface_hub` and `datasets` call, in a process of its own.

    store     repositories, commits, refs, pull requests and large files
    faults    answers that go wrong on purpose, and the log of what was asked
    xet       what was uploaded by Xet, into a folder
    server    the HTTP endpoints over all
    client    starts the server, and commands that talk to it

It doesn't know the real Hub's rate limits, its checks of YAML, or its redirects to storage.
"""
