//! The Java client (`kafka-clients`), in the profiles `java` (4.3.1) and `java-3.4`.
