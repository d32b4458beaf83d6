"""Why requests took as long as they did: one of them (:mod:`.request`), or those of a tail (:mod:`.tail`)."""
