"""Options of the whole suite."""


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the passes give today into tests/golden; read the difference before committing it",
    )
