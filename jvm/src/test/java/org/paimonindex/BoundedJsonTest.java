package org.paimonindex;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** JSON of any depth and length neither fails a query nor holds it. */
class BoundedJsonTest {

    @TempDir Path directory;

    private static byte[] hostile(String kind) {
        String text;
        switch (kind) {
            case "deep":
                text = "{\"detail\":" + "[".repeat(100_000) + "]".repeat(100_000) + "}";
                break;
            case "shallow for the reader, deep for what prints it":
                text = "{\"detail\":" + "[".repeat(120) + "]".repeat(120) + "}";
                break;
            case "digits":
                text = "{\"schema_id\":" + "9".repeat(2_000_000) + "}";
                break;
            case "long":
                text = "{\"detail\":\"" + "x".repeat(9 << 20) + "\"}";
                break;
            default:
                text = "null";
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }

    @ParameterizedTest
    @ValueSource(strings = {"deep", "shallow for the reader, deep for what prints it", "digits", "long", "null"})
    void isRefused(String kind) {
        assertThrows(IllegalArgumentException.class, () -> BoundedJson.object(hostile(kind)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"deep", "shallow for the reader, deep for what prints it", "digits", "long", "null"})
    void failsNoQuery(String kind) throws Exception {
        Path warehouse = directory.resolve("warehouse");
        WrittenTable.write(warehouse);
        try (WebServer service = WebServer.giving(() -> hostile(kind));
                Catalog catalog = WrittenTable.catalog(warehouse, service.options())) {
            assertEquals(List.of(0, 20), WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn"));
        }
    }

    @Test
    void bracketsAndDigitsInTextsAreText() {
        String text = "[{\\\"".repeat(100) + "7".repeat(100);
        byte[] content = ("{\"text\":\"" + text + "\",\"number\":-12.5e3}").getBytes(StandardCharsets.UTF_8);

        assertEquals(
                Map.of("text", text.replace("\\\"", "\""), "number", -12500.0), BoundedJson.object(content));
    }
}
