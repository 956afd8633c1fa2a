//! The files that kube-apiserver requires if no other program writes them: tokens, a key, a kubeconfig.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::json;

/// Names of the files in a server's directory.
pub(super) const KUBECONFIG: &str = "kubeconfig";
pub(super) const TOKENS: &str = "tokens.csv";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
pub(super) const SERVICE_ACCOUNT_PUBLIC_KEY: &str = "service-account.pub";
pub(super) const CERTIFICATES: &str = "certs";

/// The contexts of the kubeconfig: a user with all permissions, and a user without permissions.
pub(super) const ADMIN: &str = "admin";
pub(super) const NOBODY: &str = "nobody";

/// Writes the files into `dir`. A restart uses the same files, so clients remain valid.
pub(super) fn prepare(dir: &Path, address: SocketAddr) -> Result<()> {
    if dir.join(KUBECONFIG).exists() {
        return Ok(());
    }
    let (admin, nobody) = (secret()?, secret()?);
    let tokens = format!("{admin},{ADMIN},{ADMIN},system:masters\n{nobody},{NOBODY},{NOBODY}\n");
    std::fs::write(dir.join(TOKENS), tokens)?;
    let key = KeyPair::generate()?;
    std::fs::write(dir.join(SERVICE_ACCOUNT_KEY), key.serialize_pem())?;
    std::fs::write(dir.join(SERVICE_ACCOUNT_PUBLIC_KEY), key.public_key_pem())?;
    std::fs::write(dir.join(KUBECONFIG), kubeconfig(dir, address, &admin, &nobody))?;
    Ok(())
}

/// Returns a random secret: the public half of a new key, which is not published.
fn secret() -> Result<String> {
    let mut text = String::new();
    for byte in &KeyPair::generate()?.der_bytes()[1..33] {
        write!(text, "{byte:02x}")?;
    }
    Ok(text)
}

/// JSON is YAML. The authority is the file that kube-apiserver writes for itself when it starts.
fn kubeconfig(dir: &Path, address: SocketAddr, admin: &str, nobody: &str) -> String {
    let context = |user| json!({"name": user, "context": {"cluster": "real", "user": user}});
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "real", "cluster": {
            "server": format!("https://{address}"),
            "certificate-authority": dir.join(CERTIFICATES).join("apiserver.crt"),
        }}],
        "users": [
            {"name": ADMIN, "user": {"token": admin}},
            {"name": NOBODY, "user": {"token": nobody}},
        ],
        "contexts": [context(ADMIN), context(NOBODY)],
        "current-context": ADMIN,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_start_keeps_tokens() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let address = SocketAddr::from(([127, 0, 0, 1], 6443));
        prepare(dir.path(), address)?;
        let before = std::fs::read_to_string(dir.path().join(TOKENS))?;
        prepare(dir.path(), address)?;
        assert_eq!(std::fs::read_to_string(dir.path().join(TOKENS))?, before);

        let users: Vec<&str> = before.lines().filter_map(|line| line.split(',').nth(1)).collect();
        assert_eq!(users, [ADMIN, NOBODY]);
        Ok(())
    }
}
