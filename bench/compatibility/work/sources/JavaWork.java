// SPDX-License-Identifier: Apache-2.0
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class JavaWork {
    static long crc(int seed) {
        Map<String, List<Integer>> groups = new TreeMap<>();
        for (int i = 0; i < 60_000; i++)
            groups.computeIfAbsent("k" + (long) i * seed % 5003, k -> new ArrayList<>()).add(i);
        CRC32 crc = new CRC32();
        crc.update(groups.toString().getBytes());
        Deflater deflater = new Deflater();
        deflater.setInput(groups.toString().getBytes());
        deflater.finish();
        byte[] room = new byte[1 << 20];
        int n = deflater.deflate(room);
        deflater.end();
        return crc.getValue() ^ n;
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> all = new ArrayList<>();
        for (int i = 1; i <= 8; i++) { int seed = i * 31; all.add(pool.submit(() -> crc(seed))); }
        for (Future<Long> one : all) System.out.println(one.get());
        pool.shutdown();
        Map<Integer, Long> counts = IntStream.range(0, 500_000).parallel().mapToObj(i -> "" + i)
            .collect(Collectors.groupingBy(s -> s.length(), Collectors.counting()));
        System.out.println(new TreeMap<>(counts));
        Process p = new ProcessBuilder("echo", "from a child").inheritIO().start();
        System.exit(p.waitFor() + 4);
    }
}
