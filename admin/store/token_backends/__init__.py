"""Where grants of tokens are kept: nowhere, in the database, or in Redis; each answers the same."""
