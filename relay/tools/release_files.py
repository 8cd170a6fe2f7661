"""release_files.py: writes the JSON files of a release, for release.sh.

    release_files.py npm FILE            adds the repository to a package.json
    release_files.py pgxn                prints META.json of the archive for PGXN
    release_files.py sbom DIST WORK      prints the SBOM (SPDX 2.3) of the files in DIST

The environment has SOURCE_DATE_EPOCH, REPOSITORY (may be empty) and CLAIRON_COMMIT. WORK/SUITE.packages has the versions of
Debian's packages: those that a package was built with or needs. What an image contains is read from its archive.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import urllib.parse
import uuid

TOP = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r'CLAIRON_VERSION "(.*)"', (TOP / "decoder/protocol/version.h").read_text())[1]
REPOSITORY = os.environ.get("REPOSITORY", "").rstrip("/").removesuffix(".git")
SUMMARY = "Delivers committed PostgreSQL changes to the users they concern"
PURPOSES = {".deb": "INSTALL", ".tar.gz": "SOURCE", ".zip": "SOURCE", ".tgz": "ARCHIVE"}
SUITES = {"12": "bookworm", "13": "trixie"}
HEADERS_ONLY = {"uthash-dev"}  # compiled into the relay
IMAGE_SUITE = "trixie"  # docker/images/Dockerfile


def as_json(value):
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def npm(path):
    """`npm publish --provenance` requires the repository in package.json."""
    if not REPOSITORY:
        return
    package = json.loads(pathlib.Path(path).read_text())
    package["repository"] = {"type": "git", "url": f"git+{REPOSITORY}.git", "directory": "client"}
    package["homepage"] = f"{REPOSITORY}#readme"
    package["bugs"] = {"url": f"{REPOSITORY}/issues"}
    pathlib.Path(path).write_text(as_json(package))


def pgxn():
    meta = {
        "name": "clairon",
        "abstract": SUMMARY,
        "description": "Rules in SQL turn committed row changes into notifications. The output plugin creates them, "
        "and the relay, a separate program, delivers them to browsers.",
        "version": VERSION,
        "maintainer": ["The clairon developers <clairon@example.org>"],
        "license": "postgresql",
        "release_status": "testing",
        "provides": {"clairon": {"file": "sql/tables.sql", "docfile": "sql/README.md", "version": VERSION, "abstract": SUMMARY}},
        "prereqs": {"runtime": {"requires": {"PostgreSQL": "15.0.0"}}},
        "tags": ["logical decoding", "notifications", "realtime", "output plugin"],
        "meta-spec": {"version": "1.0.0", "url": "https://pgxn.org/meta/spec.txt"},
    }
    if REPOSITORY:
        meta["resources"] = {
            "homepage": REPOSITORY,
            "repository": {"url": f"{REPOSITORY}.git", "web": REPOSITORY, "type": "git"},
            "bugtracker": {"web": f"{REPOSITORY}/issues"},
        }
    sys.stdout.write(as_json(meta))


def spdx_id(*parts):
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.-]+", "-", part) for part in parts)


def versions_of(work):
    """{suite: {package: version}}, of Debian's packages."""
    found = {}
    for path in sorted(work.glob("*.packages")):
        found[path.stem] = dict(line.split("\t") for line in path.read_text().splitlines())
    return found


def field(deb, name):
    return subprocess.run(["dpkg-deb", "-f", deb, name], check=True, capture_output=True, text=True).stdout.strip()


def names_in(depends):
    """The first alternative of each dependency."""
    return [re.match(r"[^ |(:]+", each.strip())[0] for each in depends.split(",") if each.strip()]


def release_package(path):
    suffix = next((each for each in PURPOSES if path.name.endswith(each) and ".oci." not in path.name), None)
    return {
        "SPDXID": spdx_id("File", path.name),
        "name": path.name,
        "versionInfo": VERSION,
        "packageFileName": path.name,
        "downloadLocation": f"{REPOSITORY}/releases/download/v{VERSION}/{path.name}" if REPOSITORY else "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": "PostgreSQL",
        "licenseConcluded": "PostgreSQL",
        "copyrightText": "Copyright (c) 2025-2026, clairon contributors",
        "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "primaryPackagePurpose": PURPOSES.get(suffix, "CONTAINER"),
    }


def debian_package(suite, name, version):
    quoted = [urllib.parse.quote(each, safe=":") for each in (name, version)]
    return {
        "SPDXID": spdx_id(suite, name, version),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": "NOASSERTION",
        "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "supplier": "Organization: Debian",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{quoted[0]}@{quoted[1]}?distro={suite}",
            }
        ],
    }


def suite_of(deb):
    return SUITES[re.search(r"~deb(\d+)_", deb.name)[1]]


def relations_of_deb(deb, available, needed):
    """What a Debian package of clairon needs at run time, contains, and was built with, as (relationship, suite, name, version).

    `needed`: {package of clairon: names}. What another package needs at run time was not used to build this one.
    """
    suite = suite_of(deb)
    needed_by_any = set().union(*(names for other, names in needed.items() if suite_of(other) == suite))
    for name, version in sorted(available[suite].items()):
        if name in needed[deb]:
            yield "RUNTIME_DEPENDENCY_OF", suite, name, version
        elif name in HEADERS_ONLY:
            if deb.name.startswith("clairon-relay_"):
                yield "STATIC_LINK", suite, name, version
        elif name not in needed_by_any and (
            not name.startswith("postgresql-server-dev") or name.rsplit("-", 1)[1] == deb.name.split("-")[1]
        ):
            yield "BUILD_DEPENDENCY_OF", suite, name, version


def installed(status):
    """(package, version) of each stanza in dpkg's list of packages."""
    for stanza in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", stanza, re.M))
        if fields.get("Status", "").endswith(" installed"):
            yield fields["Package"], fields["Version"]


def relations_of_image(path):
    """The packages in an OCI archive, from the last layer that has a list of them."""
    with tarfile.open(path) as image:

        def blob(digest):
            return image.extractfile("./blobs/" + digest.replace(":", "/"))

        index = json.load(image.extractfile("./index.json"))
        manifest = json.load(blob(index["manifests"][0]["digest"]))
        for layer in reversed(manifest["layers"]):
            with tarfile.open(fileobj=blob(layer["digest"])) as files:
                for member in files:
                    if member.name == "var/lib/dpkg/status":
                        status = files.extractfile(member).read().decode()
                        return [("CONTAINS", IMAGE_SUITE, *each) for each in sorted(installed(status))]
    sys.exit(f"{path.name} has no list of packages")


def sbom(dist, work):
    dist, work = pathlib.Path(dist), pathlib.Path(work)
    available = versions_of(work)
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    files = [path for path in sorted(dist.iterdir()) if path.suffix != ".json" and path.name != "SHA256SUMS"]
    packages = [release_package(path) for path in files]
    debs = [path for path in files if path.suffix == ".deb" and "-dbgsym" not in path.name]
    needed = {deb: set(names_in(field(deb, "Depends"))) for deb in debs}
    source = spdx_id("File", f"clairon-{VERSION}.tar.gz")
    relations, used = [], set()
    for path in files:
        own = spdx_id("File", path.name)
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", own))
        if own != source:
            relations.append((own, "GENERATED_FROM", source))
        found = []
        if path in needed:
            found = relations_of_deb(path, available, needed)
        elif path.name.endswith(".oci.tar"):
            found = relations_of_image(path)
        for kind, *package in found:
            used.add(tuple(package))
            other = spdx_id(*package)
            relations.append((other, kind, own) if kind.endswith("_OF") else (own, kind, other))
    packages += [debian_package(*each) for each in sorted(used)]
    where = REPOSITORY or "https://spdx.org/spdxdocs"
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"clairon-{VERSION}",
        "documentNamespace": f"{where}/clairon-{VERSION}-{uuid.uuid5(uuid.NAMESPACE_URL, os.environ['CLAIRON_COMMIT'])}",
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Organization: The clairon developers", f"Tool: clairon-release_files.py-{VERSION}"],
        },
        "packages": packages,
        "relationships": [
            {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other} for one, kind, other in relations
        ],
    }
    sys.stdout.write(as_json(document))


{"npm": npm, "pgxn": pgxn, "sbom": sbom}[sys.argv[1]](*sys.argv[2:])
