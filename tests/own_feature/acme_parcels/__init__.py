"""Parcels: a feature of a package that is not Ostinato's. The folder's name is the feature's name."""

from ostinato.feature import Feature

FEATURE = Feature(
    package=__name__,
    tables=("acme_parcels_sent",),
    tasks=("send_parcel",),
    commands={"parcel": "Parcels: list."},
    menu=((95, "/parcels", "Parcels"),),
)
