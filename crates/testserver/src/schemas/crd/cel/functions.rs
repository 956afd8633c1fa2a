//! The functions of Kubernetes' CEL, with the permitted numbers of arguments.

/// The functions that the server evaluates. A method starts with a dot. After the colon, each digit is a
/// permitted number of arguments, without the target of a method.
const SUPPORTED: &str = "
    type:1 dyn:1 bool:1 int:1 uint:1 double:1 string:1 bytes:1 timestamp:1 duration:1
    size:1 .size:0 .contains:1 .startsWith:1 .endsWith:1 .matches:1 matches:2 .charAt:1 .join:01
    .indexOf:12 .lastIndexOf:12 .lowerAscii:0 .upperAscii:0 .trim:0 .replace:23 .split:12 .substring:12
    .format:1 strings.quote:1 .find:1 .findAll:12
    .isSorted:0 .sum:0 .min:0 .max:0 .slice:2 .flatten:01 .sort:0 .distinct:0 .reverse:0 .first:0 .last:0
    lists.range:1 sets.contains:2 sets.equivalent:2 sets.intersects:2
    optional.none:0 optional.of:1 optional.ofNonZeroValue:1 .hasValue:0 .value:0 .or:1 .orValue:1
    .getFullYear:0 .getMonth:0 .getDayOfYear:0 .getDayOfMonth:0 .getDate:0 .getDayOfWeek:0
    .getHours:0 .getMinutes:0 .getSeconds:0 .getMilliseconds:0
    isURL:1 url:1 .getScheme:0 .getHost:0 .getHostname:0 .getPort:0 .getEscapedPath:0 .getQuery:0
    isQuantity:1 quantity:1 sign:1 .isInteger:0 .asInteger:0 .asApproximateFloat:0 .add:1 .sub:1
    .isLessThan:1 .isGreaterThan:1 .compareTo:1
    isIP:1 ip:1 ip.isCanonical:1 .family:0 .isUnspecified:0 .isLoopback:0 .isLinkLocalMulticast:0
    .isLinkLocalUnicast:0 .isGlobalUnicast:0
    isCIDR:1 cidr:1 .containsIP:1 .containsCIDR:1 .ip:0 .prefixLength:0 .masked:0
    isSemver:12 semver:12 .major:0 .minor:0 .patch:0
    format.named:1 format.dns1123Label:0 format.dns1123Subdomain:0 format.dns1035Label:0
    format.qualifiedName:0 format.dns1123LabelPrefix:0 format.dns1123SubdomainPrefix:0
    format.dns1035LabelPrefix:0 format.labelValue:0 format.uri:0 format.uuid:0 format.byte:0 format.date:0
    format.datetime:0 .validate:1";

/// The functions of the real server that this server refuses.
const UNSUPPORTED: &str = "
    .sortBy:2 .transformList:34 .transformMap:34 .transformMapEntry:34 .all:3 .exists:3 .existsOne:3
    .exists_one:3 optional.unwrap:1 .unwrapOpt:0
    .getFullYear:1 .getMonth:1 .getDayOfYear:1 .getDayOfMonth:1 .getDate:1 .getDayOfWeek:1
    .getHours:1 .getMinutes:1 .getSeconds:1 .getMilliseconds:1";

/// Returns whether the server evaluates a function with this number of arguments.
pub(super) fn is_supported(name: &str, args: usize) -> bool {
    contains(SUPPORTED, name, args)
}

/// Returns whether only the real server evaluates a function with this number of arguments.
pub(super) fn is_unsupported(name: &str, args: usize) -> bool {
    contains(UNSUPPORTED, name, args)
}

fn contains(table: &str, name: &str, args: usize) -> bool {
    let mut entries = table.split_whitespace().filter_map(|entry| entry.split_once(':'));
    entries.any(|(known, counts)| known == name && counts.contains(&args.to_string()))
}
