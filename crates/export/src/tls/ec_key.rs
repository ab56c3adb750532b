//! Keys of elliptic curves whose scalar has not the length of its field.
//!
//! RFC 5915 fixes the length of `privateKey`, and OpenSSL writes it so. GnuTLS (certtool) writes an integer: with a zero
//! byte in front of every other key, and without the leading zeros of one in 256. OpenSSL and GnuTLS read both forms, the
//! provider of rustls the first only, so the scalar is brought to its length here.

use rustls_pki_types::PrivateKeyDer;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// `parameters` and `publicKey` of ECPrivateKey.
const PARAMETERS: u8 = 0xa0;
const PUBLIC_KEY: u8 = 0xa1;

/// Identifiers of the curves that the provider knows (P-256 and P-384), and the bytes of a scalar of each.
const CURVES: [(&[u8], usize); 2] =
    [(&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07], 32), (&[0x2b, 0x81, 0x04, 0x00, 0x22], 48)];

/// The key with a scalar of the right length; any other key as it is.
pub fn with_whole_scalar(key: PrivateKeyDer<'static>) -> PrivateKeyDer<'static> {
    match &key {
        PrivateKeyDer::Sec1(sec1) => {
            ec_private_key(sec1.secret_sec1_der(), None).map_or(key, |der| PrivateKeyDer::Sec1(der.into()))
        }
        PrivateKeyDer::Pkcs8(pkcs8) => {
            private_key_info(pkcs8.secret_pkcs8_der()).map_or(key, |der| PrivateKeyDer::Pkcs8(der.into()))
        }
        _ => key,
    }
}

/// PrivateKeyInfo of RFC 5208: the version, the algorithm with its curve, an ECPrivateKey, attributes.
fn private_key_info(der: &[u8]) -> Option<Vec<u8>> {
    let (content, []) = element(der, SEQUENCE)? else { return None };
    let (version, rest) = element(content, INTEGER)?;
    let (algorithm, rest) = element(rest, SEQUENCE)?;
    let (key, rest) = element(rest, OCTET_STRING)?;
    let (_, curve) = element(algorithm, IDENTIFIER)?;
    let (curve, _) = element(curve, IDENTIFIER)?;
    let parts = [
        encoded(INTEGER, version),
        encoded(SEQUENCE, algorithm),
        encoded(OCTET_STRING, &ec_private_key(key, Some(curve))?),
        rest.to_vec(),
    ];
    Some(encoded(SEQUENCE, &parts.concat()))
}

/// ECPrivateKey of RFC 5915. The curve is named by what contains it, by its parameters, or by its public key's length.
fn ec_private_key(der: &[u8], curve: Option<&[u8]>) -> Option<Vec<u8>> {
    let (content, []) = element(der, SEQUENCE)? else { return None };
    let (version, rest) = element(content, INTEGER)?;
    let (scalar, rest) = element(rest, OCTET_STRING)?;
    let parameters = element(rest, PARAMETERS);
    let named = parameters.and_then(|(parameters, _)| Some(element(parameters, IDENTIFIER)?.0));
    let after = parameters.map_or(rest, |(_, after)| after);
    // A zero byte (no unused bits), 4 (not compressed), two coordinates.
    let point = element(after, PUBLIC_KEY).and_then(|(point, _)| Some(element(point, BIT_STRING)?.0.len()));
    let length = match curve.or(named) {
        Some(curve) => CURVES.iter().find(|(known, _)| *known == curve)?.1,
        None => CURVES.iter().find(|(_, length)| point == Some(2 + 2 * length))?.1,
    };
    let zeros = scalar.iter().take_while(|byte| **byte == 0).count();
    let digits = &scalar[zeros..];
    let mut whole = vec![0; length.checked_sub(digits.len())?];
    whole.extend_from_slice(digits);
    let parts = [encoded(INTEGER, version), encoded(OCTET_STRING, &whole), rest.to_vec()];
    Some(encoded(SEQUENCE, &parts.concat()))
}

/// The content of the first element, which must have this tag, and what is behind it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(*rest.first()?) << 8 | usize::from(*rest.get(1)?), rest.get(2..)?),
        // No key of these curves is so long.
        _ => return None,
    };
    (found == tag && length <= rest.len()).then(|| rest.split_at(length))
}

fn encoded(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let [.., high, low] = length.to_be_bytes();
    let head: &[u8] = match length {
        0..=0x7f => &[tag, low],
        0x80..=0xff => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    [head, content].concat()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustls::crypto::ring::sign::any_supported_type;
    use rustls_pki_types::pem::PemObject;

    use super::*;

    /// As certtool writes it: an integer, without leading zeros, but with one if it would be negative.
    fn as_integer(scalar: &[u8]) -> Vec<u8> {
        let zeros = scalar.iter().take_while(|byte| **byte == 0).count();
        let sign: &[u8] = if scalar.get(zeros).is_some_and(|byte| *byte >= 0x80) { &[0] } else { &[] };
        [sign, &scalar[zeros..]].concat()
    }

    /// The forms that programs write of a key: PKCS#8 and SEC1, with and without parameters, with this scalar.
    fn forms(pkcs8: &[u8], change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<PrivateKeyDer<'static>> {
        let (content, _) = element(pkcs8, SEQUENCE).unwrap();
        let (_, rest) = element(content, INTEGER).unwrap();
        let (algorithm, rest) = element(rest, SEQUENCE).unwrap();
        let (key, _) = element(rest, OCTET_STRING).unwrap();
        let (key, _) = element(key, SEQUENCE).unwrap();
        let (version, rest) = element(key, INTEGER).unwrap();
        let (scalar, public) = element(rest, OCTET_STRING).unwrap();
        let (_, curve) = element(algorithm, IDENTIFIER).unwrap();
        let head = [encoded(INTEGER, version), encoded(OCTET_STRING, &change(scalar))].concat();
        let plain = encoded(SEQUENCE, &[&head, public].concat());
        let named = encoded(SEQUENCE, &[&head[..], &encoded(PARAMETERS, curve), public].concat());
        let info = |key: &[u8]| {
            let parts = [encoded(INTEGER, &[0]), encoded(SEQUENCE, algorithm), encoded(OCTET_STRING, key)];
            PrivateKeyDer::Pkcs8(encoded(SEQUENCE, &parts.concat()).into())
        };
        vec![info(&plain), PrivateKeyDer::Sec1(plain.into()), PrivateKeyDer::Sec1(named.into())]
    }

    #[test]
    fn keys_are_read_with_every_length_of_the_scalar() {
        let (mut longer, mut shorter) = (0, 0);
        for number in 0..1_000 {
            let curve = if number % 4 == 0 { &rcgen::PKCS_ECDSA_P384_SHA384 } else { &rcgen::PKCS_ECDSA_P256_SHA256 };
            let pkcs8 = rcgen::KeyPair::generate_for(curve).unwrap().serialize_der();
            for key in forms(&pkcs8, as_integer) {
                any_supported_type(&with_whole_scalar(key)).unwrap_or_else(|error| panic!("{number}: {error}"));
            }
            longer += usize::from(
                forms(&pkcs8, as_integer)[0].secret_der().len() > forms(&pkcs8, <[u8]>::to_vec)[0].secret_der().len(),
            );
            shorter += usize::from(
                forms(&pkcs8, as_integer)[0].secret_der().len() < forms(&pkcs8, <[u8]>::to_vec)[0].secret_der().len(),
            );
            // A key of the right form stays the same.
            for key in forms(&pkcs8, <[u8]>::to_vec) {
                assert_eq!(with_whole_scalar(key.clone_key()).secret_der(), key.secret_der());
            }
        }
        assert!(longer > 400, "half of the keys have a zero in front: {longer}; one in 256 is shorter: {shorter}");
    }

    #[test]
    fn other_keys_and_damaged_ones_are_left_as_they_are() {
        let pkcs8 = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap().serialize_der();
        let ed = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_der();
        let mut damaged = vec![ed, Vec::new(), vec![0x30, 0x84, 1, 1, 1, 1], vec![0x30, 0x82, 0xff]];
        damaged.extend((0..pkcs8.len()).map(|end| pkcs8[..end].to_vec()));
        for der in damaged {
            for key in [PrivateKeyDer::Pkcs8(der.clone().into()), PrivateKeyDer::Sec1(der.clone().into())] {
                assert_eq!(with_whole_scalar(key).secret_der(), der);
            }
        }
        // Too long for its curve, whatever it holds: the provider says what it thinks of it.
        for key in forms(&pkcs8, |scalar| [&[1], scalar].concat()) {
            assert_eq!(with_whole_scalar(key.clone_key()).secret_der(), key.secret_der());
        }
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a skip is told")]
    fn keys_of_certtool_and_openssl_are_read() {
        let commands = [
            "certtool --generate-privkey --key-type ecdsa --curve secp256r1",
            "certtool --generate-privkey --key-type ecdsa --curve secp384r1",
            "certtool --generate-privkey --key-type ecdsa --curve secp256r1 --pkcs8 --password=",
            "openssl ecparam -genkey -noout -name prime256v1",
            "openssl ecparam -genkey -noout -name secp384r1",
        ];
        for (line, _) in commands.iter().flat_map(|line| (0..12).map(move |count| (line, count))) {
            let mut words = line.split(' ');
            let Ok(output) = Command::new(words.next().unwrap_or_default()).args(words).output() else {
                eprintln!("skipped: keys_of_certtool_and_openssl_are_read: {line} cannot be run");
                continue;
            };
            let pem = String::from_utf8_lossy(&output.stdout);
            let pem = &pem[pem.find("-----BEGIN").expect("a key")..];
            let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("a key in PEM");
            any_supported_type(&with_whole_scalar(key)).unwrap_or_else(|error| panic!("{error}: {pem}"));
        }
    }
}
