package org.paimonindex;

import java.io.UnsupportedEncodingException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

/**
 * Where the service has a table: by its name in the catalog's warehouse if it lies at its default place there, and
 * else by its location below any warehouse.
 */
final class Warehouses {

    /** URLs by name. */
    private final Map<String, String> urls = new TreeMap<>();

    /**
     * Those of the service.
     *
     * @param configuration the service's answer to {@code GET /v1/config}
     * @throws NotAskedException it is something else
     */
    Warehouses(byte[] configuration) throws NotAskedException {
        try {
            ((Map<?, ?>) BoundedJson.object(configuration).get("warehouse_urls"))
                    .forEach((name, url) -> urls.put(name.toString(), url.toString()));
        } catch (RuntimeException e) {
            throw new NotAskedException(Outcome.REFUSED, "GET /v1/config is not the service's: " + e);
        }
    }

    /**
     * The URL, below that of the service, where it is asked about a table.
     *
     * @param catalogs the URL of the catalog's warehouse
     * @throws NotAskedException the table lies in no warehouse of the service
     */
    String route(PlannedTable table, String catalogs) throws NotAskedException {
        boolean isDefault = isAtDefaultPlace(table, catalogs);
        String longest = null;
        for (Map.Entry<String, String> warehouse : urls.entrySet()) {
            String url = comparable(warehouse.getValue());
            if (isDefault && url.equals(comparable(catalogs))) {
                return route(warehouse.getKey(), table);
            }
            boolean isLonger = longest == null || url.length() > comparable(urls.get(longest)).length();
            if (comparable(table.location).startsWith(url + "/") && isLonger) {
                longest = warehouse.getKey();
            }
        }
        if (longest == null) {
            throw new NotAskedException(
                    Outcome.NOT_FOUND,
                    String.format(
                            "it lies at %s, and the service's warehouses are %s. Name a directory above it in "
                                    + "PAIMON_INDEX_WAREHOUSES; where the service has a copy of the catalog's warehouse, "
                                    + "set paimon-index.warehouse",
                            table.location, urls));
        }
        String url = urls.get(longest).replaceAll("/+$", "");
        return route(longest, table) + located(url + comparable(table.location).substring(comparable(url).length()));
    }

    /** The same in the warehouse that an option of the catalog names. */
    static String routeIn(String warehouse, PlannedTable table, String catalogs) {
        String route = route(warehouse, table);
        return isAtDefaultPlace(table, catalogs) ? route : route + located(comparable(table.location));
    }

    private static boolean isAtDefaultPlace(PlannedTable table, String catalogs) {
        String expected = String.format("%s/%s.db/%s", comparable(catalogs), table.database, table.name);
        return comparable(table.location).equals(expected);
    }

    private static String route(String warehouse, PlannedTable table) {
        return String.format(
                "/v1/%s/databases/%s/tables/%s/pruned-snapshot",
                encode(warehouse), encode(table.database), encode(table.name));
    }

    private static String located(String location) {
        return "?location=" + encode(location);
    }

    private static String encode(String text) {
        try {
            return URLEncoder.encode(text, StandardCharsets.UTF_8.name()).replace("+", "%20");
        } catch (UnsupportedEncodingException e) {
            throw new AssertionError(e);
        }
    }

    /** One text for all that name the same place: {@code /a}, {@code file:/a/} and {@code file:///a}. */
    private static String comparable(String url) {
        String text = url.replaceAll("/+$", "");
        if (text.startsWith("/")) {
            return "file:" + text;
        }
        return text.replaceFirst("^s3[an]:", "s3:").replaceFirst("^([^:/]+):///+", "$1:/");
    }
}
