# Clairon::Test::SecureSocket: a RawSocket over TLS.
#
#   my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
#   my $raw = Clairon::Test::SecureSocket->user($relay, 'u1', $cert);
package Clairon::Test::SecureSocket;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::RawSocket';
use Clairon::Test::RawSocket;

# Returns the paths of a new certificate for localhost and of its key. The certificate is valid for two days, or between
# two given times such as 20210101000000Z.
sub certificate
{
    my ($from, $to) = @_;
    my $folder = Clairon::Test::scratch();
    my @new = (qw(openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost),
        '-keyout', "$folder/key.pem");
    if (defined $to) { run(@new, '-new', '-out', "$folder/request.pem"); sign_between($folder, $from, $to) }
    else             { run(@new, '-x509', '-days', 2, '-out', "$folder/cert.pem") }
    chmod 0600, "$folder/key.pem";
    return ("$folder/cert.pem", "$folder/key.pem");
}

sub run { system(@_) == 0 or die "could not make a certificate\n"; return }

# Only `openssl ca` can set both ends of the validity period; it needs a folder.
sub sign_between
{
    my ($folder, $from, $to) = @_;
    my $authority = "$folder/authority";
    mkdir $authority;
    my %files = (index => '', serial => "01\n", conf => join "\n", '[ca]', 'default_ca = own', '[own]', "database = $authority/index",
        "serial = $authority/serial", "new_certs_dir = $authority", 'default_md = sha256', 'policy = any', '[any]', 'commonName = supplied', '');
    for my $name (keys %files)
    {
        open my $file, '>', "$authority/$name" or die "could not write $authority/$name: $!\n";
        print {$file} $files{$name};
    }
    run(qw(openssl ca -batch -selfsign -notext), '-config', "$authority/conf", '-keyfile', "$folder/key.pem", '-startdate', $from,
        '-enddate', $to, '-in', "$folder/request.pem", '-out', "$folder/cert.pem");
    return;
}

sub new
{
    my ($class, $relay, $cert) = @_;
    my $self = Clairon::Test::RawSocket->new($relay);
    $self->{link}->blocking(1);
    require IO::Socket::SSL;
    IO::Socket::SSL->start_SSL($self->{link}, SSL_ca_file => $cert, SSL_verifycn_scheme => 'none')
      or die 'no TLS: ' . IO::Socket::SSL::errstr() . "\n";
    return bless $self, $class;
}

# Like RawSocket->user; {response} is the relay's response to the upgrade.
sub user
{
    my ($class, $relay, $user, $cert) = @_;
    my $self = $class->new($relay, $cert);
    $self->request(GET => '/v1/ws', Upgrade => 'websocket', Connection => 'Upgrade',
        'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version' => 13,
        'Sec-WebSocket-Protocol' => 'clairon.v1.json');
    $self->send_json({ t => 'connect', r => 1, token => Clairon::Test::token(sub => $user) });
    $self->wait_message('connected');
    return $self;
}

# select() does not report bytes that OpenSSL has buffered, so reads and writes block.
sub more
{
    my ($self) = @_;
    my $got = sysread $self->{link}, my $bytes, 65536;
    $self->{bytes} .= $bytes // '';
    return $got ? 1 : 0;
}

sub write
{
    my ($self, $bytes) = @_;
    while (length $bytes)
    {
        my $sent = syswrite($self->{link}, $bytes) // return 0;
        substr $bytes, 0, $sent, '';
    }
    return 1;
}

1;
