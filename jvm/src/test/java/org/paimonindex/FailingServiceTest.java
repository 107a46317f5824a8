package org.paimonindex;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.utils.InstantiationUtil;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Whatever a service does, a query has its rows, and waits for it no longer than it is told. */
class FailingServiceTest {

    private static final List<Integer> IN_BONN = List.of(0, 20);
    /** Far below what a service here would take, far above what the engine's plan does. */
    private static final Duration SOON = Duration.ofSeconds(20);

    @TempDir Path warehouse;

    private final Outcomes outcomes = new Outcomes();

    @BeforeEach
    void write() throws Exception {
        WrittenTable.write(warehouse);
    }

    private List<Integer> ask(Map<String, String> options) throws Exception {
        return ask(options, WrittenTable.NAME);
    }

    private List<Integer> ask(Map<String, String> options, Identifier table) throws Exception {
        try (Catalog catalog = WrittenTable.catalog(warehouse, options)) {
            return WrittenTable.idsOf(catalog.getTable(table), "Bonn");
        }
    }

    /** Options that wait no longer than is sure to be enough for the question to arrive. */
    private static Map<String, String> briefly(WebServer service) {
        Map<String, String> options = new HashMap<>(service.options());
        options.put("paimon-index.timeout", "2 s");
        return options;
    }

    private byte[] answer() throws Exception {
        try (Catalog catalog = WrittenTable.catalog(warehouse, Map.of())) {
            FileStoreTable table = (FileStoreTable) catalog.getTable(WrittenTable.NAME);
            return Archive.of(table, table.snapshotManager().latestSnapshot(), 0, 2).bytes();
        }
    }

    @ParameterizedTest
    @CsvSource({
        "500, {}, unreachable",
        "503, busy, unreachable",
        "429, busy, unreachable",
        "403, {}, refused",
        "404, {}, not_found",
        "302, '', refused",
        "200, <html>, refused",
        "200, {}, refused",
        "200, PK, refused"
    })
    void itsAnswerIsNone(int status, String body, String outcome) throws Exception {
        try (WebServer service =
                new WebServer(exchange -> WebServer.send(exchange, status, body.getBytes(StandardCharsets.UTF_8)))) {
            assertEquals(IN_BONN, ask(service.options()));
            assertEquals(1, service.requests.size());
        }
        assertEquals(List.of(outcome), outcomes.since());
    }

    @Test
    void itNeverAnswers() throws Exception {
        try (WebServer service = WebServer.silent()) {
            long start = System.nanoTime();

            assertEquals(IN_BONN, ask(briefly(service)));
            assertEquals(IN_BONN, ask(briefly(service)));

            assertTrue(Duration.ofNanos(System.nanoTime() - start).compareTo(SOON) < 0);
            assertEquals(1, service.requests.size(), "the second query is told that nobody answers");
        }
        assertEquals(List.of("late", "quiet"), outcomes.since());
    }

    @Test
    void aTableIsLateAndAnotherOneIsAskedOn() throws Exception {
        createSmall("cold", "warm");
        try (WebServer service = WebServer.silentAbout("/cold/")) {
            for (String table : List.of("cold", "warm", "cold", "warm")) {
                assertEquals(List.of(0), ask(briefly(service), Identifier.create("demo", table)));
            }
            assertEquals(2, service.requests.size());
        }
        assertEquals(List.of("late", "not_found", "quiet", "quiet"), outcomes.since());
    }

    @Test
    void twoTablesInARowAreLateAndNoneIsAsked() throws Exception {
        createSmall("first", "second", "third");
        try (WebServer service = WebServer.silent()) {
            for (String table : List.of("first", "second", "third")) {
                assertEquals(List.of(0), ask(briefly(service), Identifier.create("demo", table)));
            }
            assertEquals(2, service.requests.size());
        }
        assertEquals(List.of("late", "late", "quiet"), outcomes.since());
    }

    private void createSmall(String... tables) throws Exception {
        try (Catalog catalog = WrittenTable.catalog(warehouse, Map.of())) {
            for (String name : tables) {
                Identifier table = Identifier.create("demo", name);
                catalog.createTable(table, WrittenTable.schema(Map.of()), false);
                WrittenTable.append(catalog.getTable(table), 0, "Bonn");
            }
        }
    }

    @Test
    void itsBodyComesByteByByteUntilTheConnectionIsClosed() throws Exception {
        CountDownLatch closed = new CountDownLatch(1);
        CountDownLatch never = new CountDownLatch(1);
        try (WebServer service =
                new WebServer(
                        exchange -> {
                            exchange.sendResponseHeaders(200, 0);
                            try (OutputStream body = exchange.getResponseBody()) {
                                while (!never.await(50, TimeUnit.MILLISECONDS)) {
                                    body.write('P');
                                    body.flush();
                                }
                            } catch (IOException | InterruptedException e) {
                                closed.countDown();
                            }
                        })) {
            assertEquals(IN_BONN, ask(briefly(service)));

            assertTrue(closed.await(SOON.toSeconds(), TimeUnit.SECONDS), "nobody reads on in the background");
        }
        assertEquals(List.of("late"), outcomes.since());
    }

    @Test
    void itsBodyIsTooLarge() throws Exception {
        byte[] answer = answer();
        // Readers of archives pass over what follows.
        byte[] tooLong = Arrays.copyOf(answer, Exchange.MOST_BYTES + 1);
        try (WebServer service = WebServer.giving(() -> tooLong)) {
            assertEquals(IN_BONN, ask(service.options()));
            assertEquals(1, service.requests.size());
        }
        assertEquals(List.of("refused"), outcomes.since());
    }

    @Test
    void nobodyListens() throws Exception {
        WebServer service = new WebServer(exchange -> {});
        service.close();

        assertEquals(IN_BONN, ask(service.options()));

        assertEquals(List.of("unreachable"), outcomes.since());
    }

    @Test
    void theSecondUrlAnswersInsteadOfOneThatHangs() throws Exception {
        try (WebServer hanging = WebServer.silent();
                WebServer service = WebServer.giving(this::answer)) {
            Map<String, String> options = new HashMap<>(service.options());
            options.put("paimon-index.uri", hanging.uri() + ", " + service.uri());
            options.put("paimon-index.timeout", "10 s");

            assertEquals(IN_BONN, ask(options));
            assertEquals(IN_BONN, ask(options));

            assertEquals(1, hanging.requests.size());
            assertEquals(2, service.requests.size());
        }
        assertEquals(List.of("planned", "planned"), outcomes.since());
    }

    @Test
    void theSecondUrlAnswersInsteadOfOneThatIsBusy() throws Exception {
        try (WebServer busy = new WebServer(exchange -> WebServer.send(exchange, 503, new byte[0]));
                WebServer service = WebServer.giving(this::answer)) {
            Map<String, String> options = new HashMap<>(service.options());
            options.put("paimon-index.uri", busy.uri() + "," + service.uri());

            assertEquals(IN_BONN, ask(options));
        }
        assertEquals(List.of("planned"), outcomes.since());
    }

    /** A server closes a connection that was idle for long, and a question may be on its way at that moment. */
    @Test
    void itClosesTheConnectionThatWasKept() throws Exception {
        byte[] answer = answer();
        try (ServerSocket listening = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
            Thread server =
                    new Thread(
                            () -> {
                                try (Socket kept = listening.accept()) {
                                    readQuestion(kept);
                                    kept.getOutputStream().write(head(answer.length));
                                    kept.getOutputStream().write(answer);
                                    readQuestion(kept);
                                } catch (IOException e) {
                                    return;
                                }
                                try (Socket next = listening.accept()) {
                                    readQuestion(next);
                                    next.getOutputStream().write(head(answer.length));
                                    next.getOutputStream().write(answer);
                                } catch (IOException e) {
                                    // The test is over.
                                }
                            });
            server.start();
            Map<String, String> service =
                    Map.of(
                            "paimon-index.uri", "http://127.0.0.1:" + listening.getLocalPort(),
                            "paimon-index.warehouse", "main",
                            "paimon-index.timeout", "60 s");

            assertEquals(IN_BONN, ask(service));
            assertEquals(IN_BONN, ask(service));
        }
        assertEquals(List.of("planned", "planned"), outcomes.since());
    }

    private static byte[] head(int length) {
        return ("HTTP/1.1 200 OK\r\nContent-Length: " + length + "\r\n\r\n").getBytes(StandardCharsets.US_ASCII);
    }

    private static void readQuestion(Socket socket) throws IOException {
        StringBuilder read = new StringBuilder();
        for (int next = socket.getInputStream().read(); next >= 0; next = socket.getInputStream().read()) {
            read.append((char) next);
            // The last member of the question.
            if (read.toString().endsWith("\"most_share\":0.5}")) {
                return;
            }
        }
    }

    @Test
    void anInterruptStaysOne() throws Exception {
        try (WebServer silent = WebServer.silent()) {
            Map<String, String> patient = new HashMap<>(silent.options());
            patient.put("paimon-index.timeout", "1 h");
            boolean[] isInterrupted = new boolean[1];
            Thread query =
                    new Thread(
                            () -> {
                                try {
                                    ask(patient);
                                } catch (Exception e) {
                                    // What the engine makes of an interrupt is its own.
                                } finally {
                                    isInterrupted[0] = Thread.currentThread().isInterrupted();
                                }
                            });
            query.start();
            while (silent.requests.isEmpty()) {
                Thread.onSpinWait();
            }
            query.interrupt();
            query.join(SOON.toMillis());

            assertFalse(query.isAlive());
            assertTrue(isInterrupted[0], "the query's thread is interrupted still");
            assertEquals(List.of(), outcomes.since(), "and the service did not fail");
        }
    }

    @Test
    void aRedirectTakesNoTokenElsewhere() throws Exception {
        try (WebServer elsewhere = new WebServer(exchange -> WebServer.send(exchange, 404, new byte[0]));
                WebServer service =
                        new WebServer(
                                exchange -> {
                                    exchange.getResponseHeaders().add("Location", elsewhere.uri() + "/");
                                    WebServer.send(exchange, 307, new byte[0]);
                                })) {
            Map<String, String> options = new HashMap<>(service.options());
            options.put("paimon-index.token", "a-secret");

            assertEquals(IN_BONN, ask(options));

            assertEquals("Bearer a-secret", service.requests.get(0).token);
            assertEquals(0, elsewhere.requests.size());
        }
    }

    @Test
    void theTokensFileIsReadForEachQuestion() throws Exception {
        Path file = warehouse.resolve("token");
        try (WebServer service = WebServer.giving(this::answer)) {
            Map<String, String> options = new HashMap<>(service.options());
            options.put("paimon-index.token-file", file.toString());

            assertEquals(IN_BONN, ask(options));
            Files.writeString(file, "first\n");
            assertEquals(IN_BONN, ask(options));
            Files.writeString(file, "second\n");
            assertEquals(IN_BONN, ask(options));

            assertEquals("Bearer first", service.requests.get(0).token);
            assertEquals("Bearer second", service.requests.get(1).token);
        }
        assertEquals(List.of("planned", "planned", "refused"), outcomes.since());
    }

    /** As Flink's job manager plans a table that a session made. */
    @Test
    void aTableThatWasSentElsewhereTakesNoTokenAlong() throws Exception {
        Path file = warehouse.resolve("token");
        Files.writeString(file, "of that place");
        try (WebServer service = WebServer.giving(this::answer)) {
            for (Map<String, String> token :
                    List.of(
                            Map.of("paimon-index.token", "a-secret"),
                            Map.of("paimon-index.token-file", file.toString()))) {
                Map<String, String> options = new HashMap<>(service.options());
                options.putAll(token);
                try (Catalog catalog = WrittenTable.catalog(warehouse, options)) {
                    Table table = InstantiationUtil.clone(catalog.getTable(WrittenTable.NAME));

                    assertEquals(IN_BONN, WrittenTable.idsOf(table, "Bonn"));
                }
            }
            assertNull(service.requests.get(0).token);
            assertEquals("Bearer of that place", service.requests.get(1).token);
        }
        assertEquals(List.of("planned", "planned"), outcomes.since());
    }

    private static NotAskedException refusal(Map<String, String> options) {
        Service service = new Service(ServiceOptions.of(Options.fromMap(options)));
        PlannedTable table = new PlannedTable(WrittenTable.NAME, "file:/data/demo.db/cities", Map.of(), 0, false);
        return assertThrows(NotAskedException.class, () -> service.prunedSnapshot(table, "{}", () -> {}));
    }

    @Test
    void aTokenThatCannotBeSentIsNotLogged() {
        NotAskedException refused =
                refusal(Map.of("paimon-index.uri", "http://localhost:1", "paimon-index.token", "a\nsecret"));

        assertEquals(Outcome.REFUSED, refused.outcome);
        assertFalse(refused.getMessage().contains("secret"));
    }

    @Test
    void aLateAnswerMayBeThatOfTheFirstRead() throws Exception {
        try (WebServer silent = WebServer.silent()) {
            NotAskedException late = refusal(briefly(silent));

            String expected = "is late: perhaps the first read of this table, which is asked about again once the "
                            + "service has read it";
            assertEquals(silent.uri() + " " + expected, late.getMessage());
        }
    }

    @Test
    void aTableIsAskedAboutAgainOnceItsFirstAnswerHasCome() throws Exception {
        CountDownLatch isRead = new CountDownLatch(1);
        byte[] answer = answer();
        try (WebServer slow =
                new WebServer(
                        exchange -> {
                            try {
                                isRead.await();
                                WebServer.send(exchange, 200, answer);
                            } catch (InterruptedException e) {
                                Thread.currentThread().interrupt();
                            }
                        })) {
            assertEquals(IN_BONN, ask(briefly(slow)));
            assertEquals(IN_BONN, ask(briefly(slow)));
            assertEquals(List.of("late", "quiet"), outcomes.since());
            assertEquals(1, slow.requests.size());

            isRead.countDown();
            Map<String, String> patient = new HashMap<>(briefly(slow));
            patient.put("paimon-index.timeout", "60 s");
            do {
                assertEquals(IN_BONN, ask(patient));
            } while (!outcomes.since().contains("planned"));

            assertEquals(2, slow.requests.size());
        }
    }

    @Test
    void anOptionThatIsNoneIsSaid() throws Exception {
        PrintStream before = System.err;
        ByteArrayOutputStream lines = new ByteArrayOutputStream();
        System.setErr(new PrintStream(lines, true, StandardCharsets.UTF_8));
        try {
            refusal(Map.of("paimon-index.uri", "http://localhost:2", "paimon-index.timout", "1 s"));
            refusal(Map.of("paimon-index.uri", "http://localhost:2", "paimon-index.colour", "red"));
        } finally {
            System.setErr(before);
        }

        String written = lines.toString(StandardCharsets.UTF_8);
        assertTrue(written.contains("paimon-index.timout is no option of the catalog: did you mean paimon-index.timeout?"));
        assertTrue(written.contains("paimon-index.colour is no option of the catalog" + System.lineSeparator()));
    }

    @Test
    void whoIsNotReachedIsSaidWithoutClassesOfJava() throws Exception {
        WebServer closed = new WebServer(exchange -> {});
        closed.close();

        String message = refusal(closed.options()).getMessage();
        assertTrue(message.startsWith(closed.uri() + " is not reached: Connection refused"), message);
        assertFalse(message.contains("java."), message);
    }

    @Test
    void aLineAMinuteSaysSo() {
        PlannedTable table = new PlannedTable(WrittenTable.NAME, "file:/data/demo.db/cities", Map.of(), 0, false);
        PrintStream before = System.err;
        ByteArrayOutputStream lines = new ByteArrayOutputStream();
        System.setErr(new PrintStream(lines, true, StandardCharsets.UTF_8));
        try {
            for (int i = 0; i < 3; i++) {
                Scans.left(table, new NotAskedException(Outcome.RELEASE, "it is an old one"));
            }
        } finally {
            System.setErr(before);
        }
        List<String> written = lines.toString(StandardCharsets.UTF_8).lines().collect(Collectors.toList());
        assertEquals(1, written.size(), written::toString);
        assertTrue(written.get(0).endsWith("demo.cities is planned by the engine: it is an old one"));
    }
}
