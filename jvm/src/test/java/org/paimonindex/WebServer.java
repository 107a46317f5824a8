package org.paimonindex;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A server that answers as a test says, and remembers what it was asked. */
final class WebServer implements AutoCloseable {

    /** What one request said. */
    static final class Request {

        final String path;
        /** As it was sent; null without one. */
        final String query;
        final String token;
        final String body;
        final int port;

        Request(HttpExchange exchange) throws IOException {
            this.path = exchange.getRequestURI().getRawPath();
            this.query = exchange.getRequestURI().getRawQuery();
            this.token = exchange.getRequestHeaders().getFirst("Authorization");
            this.body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            this.port = exchange.getRemoteAddress().getPort();
        }
    }

    interface Answer {
        void to(HttpExchange exchange) throws IOException;
    }

    interface Content {
        byte[] bytes() throws Exception;
    }

    final List<Request> requests = new CopyOnWriteArrayList<>();

    private final CountDownLatch end = new CountDownLatch(1);
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final HttpServer server;

    WebServer(Answer answer) throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(threads);
        server.createContext(
                "/",
                exchange -> {
                    requests.add(new Request(exchange));
                    answer.to(exchange);
                    exchange.close();
                });
        server.start();
    }

    static WebServer giving(Content content) throws IOException {
        return new WebServer(
                exchange -> {
                    try {
                        send(exchange, 200, content.bytes());
                    } catch (Exception e) {
                        send(exchange, 500, e.toString().getBytes(StandardCharsets.UTF_8));
                    }
                });
    }

    /** One that reads requests and lets them wait until the test is over. */
    static WebServer silent() throws IOException {
        return silentAbout("/");
    }

    /** One that is silent about paths with this part, and has nothing else. */
    static WebServer silentAbout(String part) throws IOException {
        WebServer[] itself = new WebServer[1];
        itself[0] =
                new WebServer(
                        exchange -> {
                            if (exchange.getRequestURI().getRawPath().contains(part)) {
                                itself[0].awaitEnd();
                            } else {
                                send(exchange, 404, new byte[0]);
                            }
                        });
        return itself[0];
    }

    static void send(HttpExchange exchange, int status, byte[] body) throws IOException {
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
    }

    private void awaitEnd() {
        try {
            end.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    String uri() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    /** Options of a catalog that asks this server, and waits for it however busy this machine is. */
    Map<String, String> options() {
        return Map.of("paimon-index.uri", uri(), "paimon-index.warehouse", "main", "paimon-index.timeout", "60 s");
    }

    @Override
    public void close() {
        end.countDown();
        server.stop(0);
        threads.shutdown();
    }
}
