//! TLS towards the model server: the platform's verifier by rustls with ring, and what a failed
//! handshake says.

use std::io;
use std::sync::Arc;

use super::base_url::Scheme;
use crate::refusal::Outage;

/// The platform's verifier for https; for http an empty store, which is never used.
///
/// # Errors
/// The platform's certificates could not be read.
pub(super) fn config(scheme: Scheme) -> Result<rustls::ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let mut config = match scheme {
        Scheme::Http => builder
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth(),
        Scheme::Https => {
            let verifier = rustls_platform_verifier::Verifier::new(provider)?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// What a failed TLS handshake says about the server; `None` for other errors.
pub(super) fn tls_outage(error: &io::Error) -> Option<Outage> {
    use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            Some(Outage::WrongCertificateName)
        }
        rustls::Error::InvalidCertificate(_) => Some(Outage::UntrustedCertificate),
        // Not one byte of TLS: an HTTP answer, most likely.
        rustls::Error::InvalidMessage(_) => Some(Outage::NotHttps),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rustls::{CertificateError, InvalidMessage};

    use super::*;

    #[test]
    fn a_failed_handshake_names_its_cause() {
        let outage = |error: rustls::Error| tls_outage(&io::Error::other(error));
        for (error, expected) in [
            (
                CertificateError::NotValidForName.into(),
                Outage::WrongCertificateName,
            ),
            (
                CertificateError::UnknownIssuer.into(),
                Outage::UntrustedCertificate,
            ),
            (
                CertificateError::Expired.into(),
                Outage::UntrustedCertificate,
            ),
            (InvalidMessage::InvalidContentType.into(), Outage::NotHttps),
        ] {
            assert_eq!(outage(error), Some(expected));
        }
        assert_eq!(tls_outage(&io::ErrorKind::ConnectionReset.into()), None);
    }
}
