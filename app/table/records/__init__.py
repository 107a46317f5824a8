"""Parts that the Avro, ORC and Parquet metadata readers share: records, columns, codecs, memory limits."""
