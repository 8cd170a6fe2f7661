"""release_metadata.py: checks the JSON files of a release, for tests/release.sh. It prints what is wrong.

    release_metadata.py sbom FILE NAME..    the SBOM; the names are those of the build dependencies
    release_metadata.py pgxn ARCHIVE        META.json in the archive for PGXN
    release_metadata.py npm FILE URL        a package.json that names the repository at this URL
    release_metadata.py images ARCHIVE..    the licence of the images
"""

import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path

# What SPDX 2.3 and the specification of PGXN require.
OF_DOCUMENT = {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships"}
OF_PACKAGE = {"SPDXID", "name", "versionInfo", "downloadLocation", "licenseDeclared", "licenseConcluded"}
OF_META = {"abstract", "license", "maintainer", "meta-spec", "name", "provides", "version"}
BUILD = "BUILD_DEPENDENCY_OF"
RUN = "RUNTIME_DEPENDENCY_OF"


def ends_of(document):
    """{id of a package: {relationship: names}}, with the names of the other ends."""
    names = {each["SPDXID"]: each["name"] for each in document["packages"]}
    found = {each: {} for each in names}
    for each in document["relationships"]:
        one, kind, other = each["spdxElementId"], each["relationshipType"], each["relatedSpdxElement"]
        for own, end in ((one, other), (other, one)):
            if own in names and end in names:
                found[own].setdefault(kind, set()).add(names[end])
    return found


def sbom(path, *build):
    """Fields, ids, and what packages and images need and contain."""
    document = json.loads(Path(path).read_text())
    packages = document["packages"]
    ids = [each["SPDXID"] for each in packages]
    yield from (f"the document has no {each}" for each in OF_DOCUMENT - document.keys())
    yield from (f"{each['name']} has no {field}" for each in packages for field in sorted(OF_PACKAGE - each.keys()))
    yield from (f"two packages have the id {each}" for each in sorted(set(ids)) if ids.count(each) > 1)
    known = {"SPDXRef-DOCUMENT", *ids}
    yield from (f"no package has the id {end}" for each in document["relationships"]
                for end in (each["spdxElementId"], each["relatedSpdxElement"]) if end not in known)
    ends = ends_of(document)
    for each in packages:
        file, kinds = each.get("packageFileName", ""), ends[each["SPDXID"]]
        if file.endswith(".deb") and "-dbgsym" not in file:
            wrong = {name for name in kinds.get(BUILD, ()) if re.sub(r"-\d+$", "", name) not in build}
            if wrong or not kinds.get(BUILD) or "libc6" not in kinds.get(RUN, ()):
                yield f"{file}: no build dependency: {sorted(wrong)}; needs: {sorted(kinds.get(RUN, ()))}"
        elif file.endswith(".oci.tar") and not {"libc6", "dpkg"} <= kinds.get("CONTAINS", set()):
            yield f"{file} contains no packages"


def pgxn(path):
    """Required members, and the files that they name."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        meta = json.loads(archive.read(next(each for each in names if each.endswith("/META.json"))))
    yield from (f"META.json has no {each}" for each in sorted(OF_META - meta.keys()))
    folder = f"{meta['name']}-{meta['version']}/"
    yield from (f"{each} is not in {folder}" for each in names if not each.startswith(folder))
    for extension in meta["provides"].values():
        yield from (f"the archive has no {extension[key]}" for key in ("file", "docfile") if folder + extension[key] not in names)
        if extension["version"] != meta["version"]:
            yield f"the extension has version {extension['version']}"


def npm(path, url):
    """What npm requires of a package with provenance."""
    package = json.loads(Path(path).read_text())
    if package.get("license") != "PostgreSQL":
        yield f"license: {package.get('license')}"
    if package.get("repository") != {"type": "git", "url": f"git+{url}.git", "directory": "client"}:
        yield f"repository: {package.get('repository')}"


def images(*paths):
    """Their label, and the file."""
    for path in paths:
        with tarfile.open(path) as image:

            def blob(entry):
                return image.extractfile("./blobs/" + entry["digest"].replace(":", "/"))  # pylint: disable=cell-var-from-loop

            manifest = json.load(blob(json.load(image.extractfile("./index.json"))["manifests"][0]))
            label = json.load(blob(manifest["config"]))["config"]["Labels"].get("org.opencontainers.image.licenses")
            if label != "PostgreSQL":
                yield f"{path}: the licence in its label is {label}"
            if not any("usr/share/doc/clairon/LICENSE" in tarfile.open(fileobj=blob(each)).getnames() for each in reversed(manifest["layers"])):
                yield f"{path} has no LICENSE"


problems = list({"sbom": sbom, "pgxn": pgxn, "npm": npm, "images": images}[sys.argv[1]](*sys.argv[2:]))
print("\n".join(problems))
sys.exit(1 if problems else 0)
