"""The wide pool: plain nouns, with and without a word before them, that relate a thing to a person, a town, a word...

The relations of facts.py have verbs and questions of their own; a model that has seen only those learns each one's
sentences as a list.  A scene of the wide pool draws some of these instead, fresh and easily confused ("second supplier",
"second banker", "night banker"), so that what is learned is a noun in a frame.
"""
KIN = ("uncle aunt cousin brother sister father mother son daughter friend neighbour tutor doctor lawyer agent heir patron critic pupil "
       "mentor guide host guest landlord witness driver cook gardener coach barber").split()
OFFICES = ("owner manager chairman secretary clerk auditor banker treasurer guard captain chief deputy editor speaker engineer architect "
           "keeper inspector warden porter trustee sponsor steward curator trainer").split()
PLACES = "home station depot workshop branch camp school office store mill yard port market cellar".split()
FIRMS = "bank insurer carrier printer publisher dealer seller lender customer broker brewer builder importer client parent".split()
NAMED = "hill lake valley forest island square street park bay canal".split()
PARTS = "frame handle cover case base lid wheel roof door floor".split()
EVENTS = "festival holiday fair harvest race meeting concert".split()
GOODS = "export import craft prize gift cargo".split()
TIMES = "merger renewal reform repair visit move".split()
SIZES = [("height", "metres"), ("length", "metres"), ("width", "metres"), ("speed", "knots"), ("rent", "euros"), ("budget", "euros"), ("load", "kilos")]
MODIFIERS = ("first second third old new former present next last main head senior junior summer winter spring autumn night day local "
             "northern southern eastern western upper lower inner outer early late public private royal foreign spare").split()


def pools(products, materials, months):
    """{subject type: [(noun, object)]}; an object as in facts.Relation."""
    number = [(n, "number " + u) for n, u in SIZES]
    years = [(n, "year") for n in TIMES]
    of = lambda words, o: [(w, o) for w in words]
    office = of(OFFICES, "person")
    return {"person": of(KIN, "person") + of(PLACES, "town") + of(FIRMS, "company") + of(GOODS, products) + years[:3],
            "company": office + of(PLACES, "town") + of(FIRMS, "company") + of(GOODS, products) + of(EVENTS, months) + years,
            "town": office + of(NAMED, "name") + of(FIRMS, "company") + of(GOODS, products) + of(EVENTS, months) + years,
            "device": office + of(FIRMS, "company") + of(PARTS, materials) + number + years[:3]}
