"""What is linted: settings, the search for files, and a file as a document."""
