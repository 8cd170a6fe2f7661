# Clairon::Test::EventStream: reads GET /v1/sse as a browser's EventSource would.
#
#   my $stream = Clairon::Test::EventStream->open($relay, 'u1', 'Last-Event-ID' => $pos);
#   $stream->{status}; $stream->wait_message('msg'); $stream->{id}; $stream->notifications; $stream->wait_end
package Clairon::Test::EventStream;

use strict;
use warnings;

use parent 'Clairon::Test::RawSocket';
use JSON ();

my $json = JSON->new->utf8->canonical;

# Options are headers. ':path' replaces the path; ':claims' is a reference to claims of the token. Without a user, no
# token is sent.
sub open
{
    my ($class, $relay, $user, %headers) = @_;
    my $self   = $class->SUPER::new($relay);
    my $path   = delete $headers{':path'} // '/v1/sse';
    my $claims = delete $headers{':claims'} // {};
    $headers{Authorization} //= 'Bearer ' . Clairon::Test::token(sub => $user, %$claims) if defined $user;
    %headers = (Host => $self->{host}, Accept => 'text/event-stream', %headers);
    my $text = join '', map { "$_: $headers{$_}\r\n" } grep { defined $headers{$_} } sort keys %headers;
    $self->write("GET $path HTTP/1.1\r\n$text\r\n");
    1 until $self->{bytes} =~ /\r\n\r\n/ || !$self->more;
    (my $head, $self->{bytes}) = split /\r\n\r\n/, $self->{bytes}, 2;
    my ($first, @lines) = split /\r\n/, $head // '';
    ($self->{status}) = ($first // '') =~ m{^HTTP/1\.1 (\d+)};
    $self->{headers} = { map { /^(.*?): *(.*)$/ ? (lc $1, $2) : () } @lines };
    $self->{comments} = 0;
    return $self;
}

# Returns the decoded data of the next event; undef at the end. `id` and `retry` keep their last values.
sub event
{
    my ($self) = @_;
    while (1)
    {
        my $from = $self->{searched} // 0;
        my $end  = index $self->{bytes}, "\n\n", $from;
        $self->{searched} = $end < 0 && length $self->{bytes} ? length($self->{bytes}) - 1 : 0;
        if ($end >= 0)
        {
            my $data = $self->parse(substr $self->{bytes}, 0, $end + 2, '');
            return defined $data ? $json->decode($data) : { t => 'comment' };
        }
        return undef unless $self->more;
    }
    return;
}

# Parses one event and returns its data.
sub parse
{
    my ($self, $event) = @_;
    my @data;
    for my $line (split /\n/, $event)
    {
        if    ($line =~ /^:/)             { $self->{comments}++ }
        elsif ($line =~ s/^data: //)      { push @data, $line }
        elsif ($line =~ /^id: (.*)$/)     { $self->{id} = $1 }
        elsif ($line =~ /^retry: (\d+)$/) { $self->{retry} = $1 }
        else                              { die "invalid line of an event: $line\n" }
    }
    return @data ? join "\n", @data : undef;
}

# Returns the next frame of this type; dies at the end of the stream.
sub wait_message
{
    my ($self, $type) = @_;
    while (1)
    {
        my $line = $self->event // die "the stream ended; received before: " . $json->encode($self->{messages} // []) . "\n";
        push @{ $self->{messages} }, $line if $line->{t} ne 'comment';
        return $line if $line->{t} eq $type;
    }
    return;
}

# Returns the next notification.
sub next_notification { my ($self) = @_; return $self->wait_message('msg')->{n} }

# Reads to the end; returns the remaining frames.
sub wait_end
{
    my ($self) = @_;
    my @rest;
    while (defined(my $line = $self->event)) { push @rest, $line if $line->{t} ne 'comment' }
    return @rest;
}

1;
