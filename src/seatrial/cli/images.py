# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial images`: list, save, build and push the container images of a run."""

from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Json, Overrides, examples
from seatrial.reports.terminal import counted, say, say_error, say_json, say_text
from seatrial.sdk import images
from seatrial.sdk.images import ImageList

app = typer.Typer(
    help="List, save, build and push the container images of a run and its cluster.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Target = Annotated[
    str, typer.Argument(metavar="PROFILE|RUN.YAML", help="A cluster profile, or a run's spec.")
]
Tool = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="skopeo, podman or docker. Default: the first that is installed."
    ),
]


@app.command(
    "list", epilog=examples("seatrial images list run.yaml", "seatrial images list eks --json")
)
def list_images(target: Target, overrides: Overrides = None, as_json: Json = False) -> None:
    """List every image that a run and its cluster pull, one per line.

    References have a digest if the catalog knows it. Images that you build yourself, and
    charts whose images the catalog does not list, are named on the error stream.
    """
    found = images.list_images(target, overrides or ())
    if as_json:
        say_json(
            {
                "images": [each.to_dict() for each in found.images],
                "not_listed": list(found.not_listed),
            }
        )
        return
    for each in found.images:
        say(each.reference)
    _say_missing(found, target)


@app.command(
    epilog=examples(
        "seatrial images save run.yaml -o images/",
        "seatrial images save eks -o images/ --tool skopeo",
    )
)
def save(
    target: Target,
    overrides: Overrides = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the archives go.")
    ] = Path("images"),
    tool: Tool = "",
    as_json: Json = False,
) -> None:
    """Save the images of a run and its cluster as archives, for a site without a registry.

    Archives that are already in the directory are kept, so an interrupted call continues. The file
    images.txt lists the archives with their digests.
    """
    found = images.list_images(target, overrides or ())
    wanted = [each.reference for each in found.images if each.published]
    saved = images.save_images(wanted, output, tool=tool, tell=say_error)
    if as_json:
        say_json({"archives": [str(each) for each in saved]})
        return
    say_text(f"{output} has {counted(len(saved), 'image')}.", rest="  ")
    _say_missing(found, target)
    say(f"next  seatrial images push {output} --to REGISTRY")


@app.command(
    epilog=examples(
        "seatrial images build worker-data",
        "seatrial images build worker-data --tag example.com/worker-data:1",
    )
)
def build(
    name: Annotated[
        str, typer.Argument(metavar="IMAGE", help="One of Seatrial's images, such as worker-data.")
    ],
    tag: Annotated[
        str, typer.Option(metavar="REFERENCE", help="The tag. Default: the one in the catalog.")
    ] = "",
    base: Annotated[
        str,
        typer.Option(metavar="REFERENCE", help="The base image. Default: the Dockerfile's."),
    ] = "",
    context: Annotated[Path, typer.Option(metavar="DIR", help="A checkout of Seatrial.")] = Path(),
    tool: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="docker, podman or buildah. Default: the first that is installed."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Build one of Seatrial's images from a checkout.

    PIP_INDEX_URL and PIP_CERT reach pip during the build as secrets, which no layer contains.
    """
    built = images.build_image(name, tag=tag, base=base, context=context, tool=tool)
    if as_json:
        say_json({"image": built})
        return
    say(f"Built {built}.")
    say(f"next  seatrial images push {built} --to REGISTRY")


@app.command(
    epilog=examples(
        "seatrial images push images/ --to registry.example.com/mirror",
        "seatrial images push example.com/worker-data:1 --to registry.example.com",
    )
)
def push(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="DIR|IMAGE...", help="A directory from `save`, or images."),
    ],
    registry: Annotated[
        str, typer.Option("--to", metavar="REGISTRY", help="The registry, with an optional path.")
    ],
    tool: Tool = "",
    as_json: Json = False,
) -> None:
    """Push images to your registry, each under its own path.

    Log in to the registry with the tool first, for example podman login.
    """
    pushed = images.push_images(sources, registry, tool=tool, tell=say_error)
    if as_json:
        say_json({"images": pushed})
        return
    for each in pushed:
        say(each)
    say("next  set cluster.image and cluster.preparation.image to these references")


def _say_missing(found: ImageList, target: str) -> None:
    """Name what the list does not contain, or what cannot be pulled."""
    own = [each.reference for each in found.images if not each.published]
    if own:
        say_error(
            f"Not published, so build and push them yourself (seatrial images build): "
            f"{', '.join(own)}."
        )
    if found.not_listed:
        say_error(
            f"The catalog does not list the images of {', '.join(found.not_listed)}. Run the "
            f"commands of seatrial site {target} with helm template instead of helm upgrade "
            "--install, or kubectl kustomize instead of kubectl apply, to see them."
        )
