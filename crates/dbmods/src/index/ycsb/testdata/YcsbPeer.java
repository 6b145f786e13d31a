package site.ycsb.workloads;

import java.lang.reflect.Field;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import site.ycsb.Utils;
import site.ycsb.measurements.Measurements;

/** Prints the hashes, keys and histograms of YCSB's core. README.md beside this file has the command. */
public final class YcsbPeer {
  private static final String[] MIXES = {
    "a 0.5 0.5 0 0 0", "b 0.95 0.05 0 0 0", "c 1 0 0 0 0", "d 0.95 0 0.05 0 0", "e 0 0 0.05 0.95 0", "f 0.5 0 0 0 0.5"
  };

  public static void main(String[] arguments) throws Exception {
    seed(Long.parseLong(arguments[0]));
    Measurements.setProperties(properties("uniform", 1, 1, "0"));
    keys();
    mixes();
    CoreWorkload scans = workload("uniform", 1000, 1000, "0");
    histogram("scan", 500_000, () -> scans.scanlength.nextValue().longValue());
    CoreWorkload uniform = workload("uniform", 200, 1000, "0");
    histogram("uniform", 500_000, uniform::nextKeynum);
    CoreWorkload zipfian = workload("zipfian", 1000, 1000, "0");
    histogram("zipfian", 2_000_000, zipfian::nextKeynum);
    CoreWorkload expected = workload("zipfian", 300, 1000, "0.05");
    for (int i = 0; i < 50; i++) {
      insert(expected);
    }
    histogram("zipfian-inserted", 1_000_000, expected::nextKeynum);
    CoreWorkload latest = workload("latest", 1000, 1000, "0");
    histogram("latest", 2_000_000, latest::nextKeynum);
    CoreWorkload growing = workload("latest", 200, 1000, "0.05");
    long[] draws = {0};
    histogram("latest-growing-age", 1_000_000, () -> {
      if (draws[0]++ % 2500 == 2499) {
        insert(growing);
      }
      return growing.transactioninsertkeysequence.lastValue() - growing.nextKeynum();
    });
  }

  /** Java's random numbers of a thread have no seed that can be set, but by this field. */
  private static void seed(long seed) throws Exception {
    java.util.concurrent.ThreadLocalRandom.current().nextLong();
    Field field = Thread.class.getDeclaredField("threadLocalRandomSeed");
    field.setAccessible(true);
    field.setLong(Thread.currentThread(), seed);
  }

  private static Properties properties(String distribution, long records, long operations, String inserts) {
    Properties properties = new Properties();
    properties.setProperty("requestdistribution", distribution);
    properties.setProperty("recordcount", Long.toString(records));
    properties.setProperty("operationcount", Long.toString(operations));
    properties.setProperty("insertproportion", inserts);
    properties.setProperty("maxscanlength", "100");
    return properties;
  }

  private static CoreWorkload workload(String distribution, long records, long operations, String inserts)
      throws Exception {
    CoreWorkload workload = new CoreWorkload();
    workload.init(properties(distribution, records, operations, inserts));
    return workload;
  }

  private static void insert(CoreWorkload workload) {
    workload.transactioninsertkeysequence.acknowledge(workload.transactioninsertkeysequence.nextValue());
  }

  private static void keys() throws Exception {
    CoreWorkload workload = workload("uniform", 1000, 1000, "0");
    for (long record = 0; record < 20; record++) {
      key(workload, record);
    }
    for (int bit = 5; bit < 63; bit++) {
      key(workload, (1L << bit) - 1);
      key(workload, (1L << bit) + 12_345 % (1L << bit));
    }
  }

  private static void key(CoreWorkload workload, long record) {
    System.out.println("key " + record + " " + Utils.fnvhash64(record) + " " + workload.buildKeyName(record));
  }

  private static void mixes() throws Exception {
    for (String mix : MIXES) {
      String[] parts = mix.split(" ");
      Properties properties = properties("uniform", 1000, 1000, parts[3]);
      properties.setProperty("readproportion", parts[1]);
      properties.setProperty("updateproportion", parts[2]);
      properties.setProperty("scanproportion", parts[4]);
      properties.setProperty("readmodifywriteproportion", parts[5]);
      var chooser = CoreWorkload.createOperationGenerator(properties);
      Map<String, Long> counts = new TreeMap<>();
      for (int i = 0; i < 200_000; i++) {
        counts.merge(chooser.nextValue(), 1L, Long::sum);
      }
      StringBuilder line = new StringBuilder("mix " + parts[0]);
      for (String kind : new String[] {"READ", "UPDATE", "INSERT", "SCAN", "READMODIFYWRITE"}) {
        line.append(' ').append(counts.getOrDefault(kind, 0L));
      }
      System.out.println(line);
    }
  }

  /** One line: the name, then how often each number from 0 on was drawn. */
  private static void histogram(String name, int draws, LongSupplier next) {
    TreeMap<Long, Long> counts = new TreeMap<>();
    for (int i = 0; i < draws; i++) {
      counts.merge(next.getAsLong(), 1L, Long::sum);
    }
    StringBuilder line = new StringBuilder(name);
    for (long number = 0; number <= counts.lastKey(); number++) {
      line.append(' ').append(counts.getOrDefault(number, 0L));
    }
    System.out.println(line);
  }
}
