package org.paimonindex;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Which warehouse of the service is the catalog's: the one with the same URL. */
final class Warehouses {

    private Warehouses() {}

    /**
     * The name of the catalog's warehouse.
     *
     * @param configuration the service's answer to {@code GET /v1/config}
     * @throws NotAskedException there is none
     */
    static String find(byte[] configuration, ServiceOptions options) throws NotAskedException {
        String wanted = comparable(options.catalogWarehouse);
        List<String> others = new ArrayList<>();
        try {
            Map<?, ?> answer = BoundedJson.object(configuration);
            for (Map.Entry<?, ?> each : ((Map<?, ?>) answer.get("warehouse_urls")).entrySet()) {
                if (comparable(each.getValue().toString()).equals(wanted)) {
                    return each.getKey().toString();
                }
                others.add(each.getKey() + " at " + each.getValue());
            }
        } catch (RuntimeException e) {
            throw new NotAskedException(Outcome.REFUSED, "GET /v1/config is not the service's: " + e);
        }
        throw new NotAskedException(
                Outcome.REFUSED,
                String.format(
                        "no warehouse of the service has the URL %s: set paimon-index.warehouse to one of %s",
                        options.catalogWarehouse, others));
    }

    /** One text for all that name the same place: {@code /a}, {@code file:/a/} and {@code file:///a}. */
    private static String comparable(String url) {
        String text = url.replaceAll("/+$", "");
        if (text.startsWith("/")) {
            return "file:" + text;
        }
        return text.replaceFirst("^s3[an]:", "s3:").replaceFirst("^file:/+", "file:/");
    }
}
