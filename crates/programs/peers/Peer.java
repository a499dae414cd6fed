// Echo with channels and a selector, HTTP with the library's server and client:
// see src/programs/peers.rs.

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;

public class Peer {
    public static void main(String[] words) throws Exception {
        InetSocketAddress at = new InetSocketAddress(words[1], Integer.parseInt(words[2]));
        switch (words[0]) {
            case "echo-serve" -> echoServe(at);
            case "echo-call" ->
                echoCall(at, Integer.parseInt(words[3]), Integer.parseInt(words[4]));
            case "http-serve" -> httpServe(at);
            case "http-call" -> httpCall(words[1], words[2], Integer.parseInt(words[3]));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    static void echoServe(InetSocketAddress at) throws IOException {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(at, 128);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        System.out.println("listening");
        while (true) {
            selector.select();
            Iterator<SelectionKey> keys = selector.selectedKeys().iterator();
            while (keys.hasNext()) {
                SelectionKey key = keys.next();
                keys.remove();
                if (key.isAcceptable()) {
                    SocketChannel channel = listener.accept();
                    channel.configureBlocking(false);
                    ByteBuffer buffer = ByteBuffer.allocateDirect(65536);
                    channel.register(selector, SelectionKey.OP_READ, buffer);
                } else {
                    answer(key);
                }
            }
        }
    }

    /** Reads what fits, writes what goes; waits for the direction that is left. */
    static void answer(SelectionKey key) throws IOException {
        SocketChannel channel = (SocketChannel) key.channel();
        ByteBuffer buffer = (ByteBuffer) key.attachment();
        boolean over = key.isReadable() && channel.read(buffer) < 0;
        buffer.flip();
        channel.write(buffer);
        buffer.compact();
        if (over) {
            key.cancel();
            buffer.flip();
            channel.configureBlocking(true);
            while (buffer.hasRemaining()) {
                channel.write(buffer);
            }
            channel.close();
            return;
        }
        int wanted = buffer.position() > 0 ? SelectionKey.OP_WRITE : 0;
        wanted |= buffer.hasRemaining() ? SelectionKey.OP_READ : 0;
        key.interestOps(wanted);
    }

    /** One selector for all connections: each sends its bytes and reads them back. */
    static void echoCall(InetSocketAddress at, int count, int size) throws IOException {
        Selector selector = Selector.open();
        for (int i = 0; i < count; i++) {
            SocketChannel channel = SocketChannel.open();
            channel.configureBlocking(false);
            int wanted = channel.connect(at)
                ? SelectionKey.OP_READ | SelectionKey.OP_WRITE : SelectionKey.OP_CONNECT;
            channel.register(selector, wanted, new Talk(i, size));
        }
        long total = 0;
        while (!selector.keys().isEmpty()) {
            selector.select();
            Iterator<SelectionKey> keys = selector.selectedKeys().iterator();
            while (keys.hasNext()) {
                SelectionKey key = keys.next();
                keys.remove();
                total += ((Talk) key.attachment()).step(key);
            }
            selector.selectNow();
        }
        System.out.println("ok " + total);
    }

    static class Talk {
        final byte[] sent;
        final ByteBuffer out;
        final ByteBuffer in;

        Talk(int seed, int size) {
            sent = new byte[size];
            new Random(seed).nextBytes(sent);
            out = ByteBuffer.wrap(sent);
            in = ByteBuffer.allocate(size);
        }

        /** The bytes that came back, once all have. */
        long step(SelectionKey key) throws IOException {
            SocketChannel channel = (SocketChannel) key.channel();
            if (key.isConnectable()) {
                channel.finishConnect();
                key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
                return 0;
            }
            if (key.isWritable()) {
                channel.write(out);
                if (!out.hasRemaining()) {
                    channel.shutdownOutput();
                    key.interestOps(SelectionKey.OP_READ);
                }
            }
            if (!key.isReadable()) {
                return 0;
            }
            if (in.hasRemaining()) {
                if (channel.read(in) < 0) {
                    throw new IOException("closed with " + in.remaining() + " bytes missing");
                }
                return 0;
            }
            int more = channel.read(ByteBuffer.allocate(1));
            if (more == 0) {
                return 0;
            }
            if (more > 0) {
                throw new IOException("more came back than was sent");
            }
            if (!Arrays.equals(in.array(), sent)) {
                throw new IOException("other bytes came back");
            }
            channel.close();
            return sent.length;
        }
    }

    static void httpServe(InetSocketAddress at) throws IOException {
        HttpServer server = HttpServer.create(at, 128);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
        System.out.println("listening");
    }

    static void httpCall(String host, String port, int count) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        URI uri = URI.create("http://" + host + ":" + port + "/");
        List<CompletableFuture<Void>> calls = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            byte[] body = new byte[1000 + i];
            new Random(i).nextBytes(body);
            HttpRequest request =
                HttpRequest.newBuilder(uri).POST(BodyPublishers.ofByteArray(body)).build();
            CompletableFuture<HttpResponse<byte[]>> answer =
                client.sendAsync(request, BodyHandlers.ofByteArray());
            calls.add(answer.thenAccept(got -> {
                if (!Arrays.equals(got.body(), body)) {
                    throw new IllegalStateException("another body came back");
                }
            }));
        }
        for (CompletableFuture<Void> call : calls) {
            call.get();
        }
        System.out.println("ok " + count);
    }
}
