package org.paimonindex;

/** What became of a scan; each has a counter. */
enum Outcome {
    /** The service's plan was used. */
    PLANNED,
    /** The service's plan was compared with the engine's, which was used. */
    OBSERVED,
    /** Nothing to ask: no filter, or none but IS NOT NULL. */
    NO_FILTER,
    /** An option is in force whose effect on the answer is not known. */
    OPTION,
    /** The catalog keeps the table's snapshots, or gives tokens for its files: the service has neither. */
    CATALOG_MANAGED,
    /** The table has indexes of the engine's own for its primary key, by which the engine plans better. */
    PRIMARY_KEY_INDEX,
    /** The engine finds rows of the table by its global indexes, and reads no others. */
    DATA_EVOLUTION,
    /** The service keeps too much for its plan to be worth more than the engine's. */
    NOT_SELECTIVE,
    /** The answer is not about the version of the table that is read. */
    OTHER_VERSION,
    /** The engine's release lacks what the catalog needs of it. */
    RELEASE,
    /** The service has no such table; it is not asked about it for a while. */
    NOT_FOUND,
    /** The service refused, or its answer cannot be read. */
    REFUSED,
    /** The service was not reached, or was overloaded; one that is not reached is not asked for a while. */
    UNREACHABLE,
    /** The service did not answer in time; it is not asked about this table for a while. */
    LATE,
    /** A question within such a while. */
    QUIET
}
