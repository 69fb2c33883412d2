"""The work of the task `fetch`: it stores a source in its table, page by page.

`page` requests a page and holds its body, `reading` finds its records, and `mapped` makes rows of them. `run` stores
the rows by `table`, and fetches the next page meanwhile. Parsing, mapping and storing use threads; only the network is
on the loop. `turns` shortens the time that these threads wait for each other. `trying` fetches one page as a test.
"""
