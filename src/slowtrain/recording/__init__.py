"""The format of a recording on disk: writer, reader, thinning."""
