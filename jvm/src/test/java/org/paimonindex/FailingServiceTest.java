package org.paimonindex;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.paimon.catalog.Catalog;
import org.junit.jupiter.api.AfterEach;
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

    private final CountDownLatch end = new CountDownLatch(1);
    private final AtomicInteger questions = new AtomicInteger();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private HttpServer server;

    @BeforeEach
    void start() throws Exception {
        WrittenTable.write(warehouse);
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.start();
    }

    @AfterEach
    void stop() {
        end.countDown();
        server.stop(0);
        threads.shutdown();
    }

    @ParameterizedTest
    @CsvSource({"500, {}", "503, busy", "429, busy", "404, {}", "302, ''", "200, <html>", "200, {}", "200, PK"})
    void itsAnswerIsNone(int status, String body) throws Exception {
        answerWith(exchange -> send(exchange, status, body.getBytes(StandardCharsets.UTF_8)));

        assertEquals(IN_BONN, ask());
        assertEquals(1, questions.get());
    }

    @Test
    void itNeverAnswers() throws Exception {
        answerWith(exchange -> await());
        long start = System.nanoTime();

        assertEquals(IN_BONN, ask());
        assertEquals(IN_BONN, ask());

        assertTrue(Duration.ofNanos(System.nanoTime() - start).compareTo(SOON) < 0);
        assertEquals(1, questions.get(), "the second query is told that nobody answers");
    }

    @Test
    void itsBodyNeverEnds() throws Exception {
        answerWith(
                exchange -> {
                    exchange.sendResponseHeaders(200, 0);
                    OutputStream body = exchange.getResponseBody();
                    body.write('P');
                    body.flush();
                    await();
                });
        long start = System.nanoTime();

        assertEquals(IN_BONN, ask());

        assertTrue(Duration.ofNanos(System.nanoTime() - start).compareTo(SOON) < 0);
    }

    @Test
    void nobodyListens() throws Exception {
        String uri = uri();
        server.stop(0);

        assertEquals(IN_BONN, ask(uri));
    }

    @Test
    void anInterruptStaysOne() throws Exception {
        answerWith(exchange -> await());
        Thread.currentThread().interrupt();

        try {
            ask();
        } catch (RuntimeException e) {
            // What the engine makes of an interrupt is its own.
        } finally {
            assertTrue(Thread.interrupted(), "the query's thread is interrupted still");
        }
    }

    private interface Answer {
        void to(HttpExchange exchange) throws IOException;
    }

    private void answerWith(Answer answer) {
        server.createContext(
                "/",
                exchange -> {
                    questions.incrementAndGet();
                    exchange.getRequestBody().readAllBytes();
                    answer.to(exchange);
                    exchange.close();
                });
    }

    private void await() {
        try {
            end.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void send(HttpExchange exchange, int status, byte[] body) throws IOException {
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
    }

    private String uri() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    private List<Integer> ask() throws Exception {
        return ask(uri());
    }

    private List<Integer> ask(String uri) throws Exception {
        Map<String, String> service =
                Map.of(
                        "paimon-index.uri", uri,
                        "paimon-index.warehouse", "main",
                        "paimon-index.timeout", "500 ms");
        try (Catalog catalog = WrittenTable.catalog(warehouse, service)) {
            return WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn");
        }
    }
}
