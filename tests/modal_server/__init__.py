"""A loopback stand-in for Modal's service, for the unmodified client; see `server.ModalServer` and `README.md`."""
