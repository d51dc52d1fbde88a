"""The version stands in CMakeLists.txt; what repeats it agrees. Needs nothing but Python."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = r"(\d+\.\d+\.\d+)"
# How this project's version is written elsewhere: images, archives, labels, packages.
FORMS = (rf"\bhistogram[:-]{NUMBER}(?=[-/ \"'}}]|$)", rf"\bnewTag: {NUMBER}-", rf"\bhistogram/v{NUMBER}/",
         rf"app\.kubernetes\.io/version: \"?{NUMBER}", rf"^appVersion: \"?{NUMBER}")
PLACES = ("Dockerfile", "README.md", "CONTRIBUTING.md", "SECURITY.md", "deploy", "docs", "scripts", "tests/deploy")


def version():
    text = (ROOT / "CMakeLists.txt").read_text()
    return re.search(rf"^project\(histogram VERSION {NUMBER}\b", text, re.M).group(1)


def repeated():
    """(place, version) of each place that names the version."""
    for place in PLACES:
        path = ROOT / place
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_dir() or file.suffix in (".png", ".gz", ".tgz"):
                continue
            text = file.read_text(errors="replace")
            for form in FORMS:
                for found in re.finditer(form, text, re.M):
                    line = text.count("\n", 0, found.start()) + 1
                    yield f"{file.relative_to(ROOT)}:{line}", found.group(1)


class Version(unittest.TestCase):
    def test_every_place_agrees(self):
        places = list(repeated())
        self.assertGreater(len(places), 10)
        for place, found in places:
            self.assertEqual(found, version(), place)

    def test_the_changelog_can_be_released_from(self):
        headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
        self.assertIn(headings[0], ("Unreleased", version()))


if __name__ == "__main__":
    unittest.main()
