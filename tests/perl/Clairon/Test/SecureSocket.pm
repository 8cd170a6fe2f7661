# Clairon::Test::SecureSocket: a RawSocket whose link is TLS.
#
#   my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
#   my $raw = Clairon::Test::SecureSocket->user($relay, 'u1', $cert);
package Clairon::Test::SecureSocket;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::RawSocket';
use Clairon::Test::RawSocket;

# Paths of a new certificate for localhost and of its key.
sub certificate
{
    my $folder = Clairon::Test::scratch();
    system(qw(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2),
        '-subj', '/CN=localhost', '-keyout', "$folder/key.pem", '-out', "$folder/cert.pem") == 0
      or die "could not make a certificate\n";
    return ("$folder/cert.pem", "$folder/key.pem");
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

# As RawSocket->user; {answer} is what the relay said to the upgrade.
sub user
{
    my ($class, $relay, $user, $cert) = @_;
    my $self = $class->new($relay, $cert);
    $self->request(GET => '/v1/ws', Upgrade => 'websocket', Connection => 'Upgrade',
        'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==', 'Sec-WebSocket-Version' => 13,
        'Sec-WebSocket-Protocol' => 'clairon.v1.json');
    $self->say({ t => 'connect', r => 1, token => Clairon::Test::token(sub => $user) });
    $self->line_of('connected');
    return $self;
}

# What OpenSSL has read already, select() does not see: so both block.
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
