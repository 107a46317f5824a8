package org.paimonindex;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What became of the scans since a moment. */
final class Outcomes {

    private final Map<String, Long> before = Scans.counts();

    /** The name of each scan's outcome, in the order of the names. */
    List<String> since() {
        List<String> found = new ArrayList<>();
        new TreeMap<>(Scans.counts())
                .forEach(
                        (outcome, count) -> {
                            for (long i = before.get(outcome); i < count; i++) {
                                found.add(outcome);
                            }
                        });
        return found;
    }
}
