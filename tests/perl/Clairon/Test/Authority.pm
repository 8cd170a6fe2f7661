# Clairon::Test::Authority: a CA, and certificates that it signs.
package Clairon::Test::Authority;

use strict;
use warnings;

sub new
{
    my ($class) = @_;
    my $self = bless { folder => Clairon::Test::scratch(), count => 0 }, $class;
    @$self{qw(ca key)} = ("$self->{folder}/ca.pem", "$self->{folder}/ca-key.pem");
    run(new_key($self->{key}), qw(-x509 -days 2 -subj /CN=authority), '-out', $self->{ca});
    return $self;
}

sub new_key { return (qw(openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes), '-keyout', $_[0]) }
sub run { system(@_) == 0 or die "could not make a certificate\n"; return }

# Returns the paths of a new certificate (cert, key) and of its CA (ca), valid for two days. Names have the form
# 'IP:127.0.0.1' or 'DNS:localhost'.
sub certificate
{
    my ($self, @names) = @_;
    my $base  = "$self->{folder}/" . ++$self->{count};
    my %paths = (cert => "$base.pem", key => "$base-key.pem", ca => $self->{ca});
    open my $file, '>', "$base.names" or die "could not write $base.names: $!\n";
    print {$file} 'subjectAltName = ', join(',', @names), "\n";
    close $file or die "could not write $base.names: $!\n";
    run(new_key($paths{key}), qw(-new -subj /CN=node), '-out', "$base.request");
    run(qw(openssl x509 -req -days 2 -CAcreateserial), '-in', "$base.request", '-CA', $self->{ca}, '-CAkey', $self->{key},
        '-extfile', "$base.names", '-out', $paths{cert});
    chmod 0600, $paths{key};
    return \%paths;
}

# Returns directives (names and values) for a store or sentinel that uses this certificate and requires certificates
# from clients and other nodes.
sub directives
{
    my ($paths, $port) = @_;
    return ('tls-port' => $port, 'tls-cert-file' => $paths->{cert}, 'tls-key-file' => $paths->{key}, 'tls-ca-cert-file' => $paths->{ca},
        'tls-auth-clients' => 'yes', 'tls-replication' => 'yes');
}

# Returns the settings of a relay with this certificate.
sub settings { my ($paths) = @_; return map { ("store.tls_$_" => $paths->{$_}) } qw(cert key ca) }

1;
