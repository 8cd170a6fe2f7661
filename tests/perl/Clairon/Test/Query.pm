# Clairon::Test::Query: a session that runs SQL over PostgreSQL's protocol, with the output of `psql -XAtq`.
#
# A psql process uses more CPU than most queries of the tests.
package Clairon::Test::Query;

use strict;
use warnings;

use IO::Select;
use IO::Socket::UNIX;

my $PROTOCOL = 3 << 16;

# Keywords before a parenthesis, and functions that neither change the session nor depend on it.
my %HARMLESS = map { $_ => 1 } qw(
  and any array as exists filter from in into not on or select using values when where with
  array_agg avg bool_and bool_or clairon.notify clock_timestamp coalesce count format generate_series jsonb_build_object
  left length lpad max md5 min now pg_current_wal_lsn pg_current_xact_id random repeat round row_number string_agg sum
  to_jsonb upper);

# Returns the statements of a script that psql would send unchanged. Empty if psql would interpret part of the script (a
# variable or a backslash command) or if it copies from standard input.
sub split_statements
{
    my ($sql) = @_;
    return if $sql =~ /\bBEGIN\s+ATOMIC\b|\bCOPY\b.*\bSTD(?:IN|OUT)\b/is;
    my ($depth, $statement, @statements) = (0, '');
    pos($sql) = 0;
    while (pos $sql < length $sql)
    {
        if ($sql =~ /\G(?:\s+|--[^\n]*|\/\*(?:(?!\/\*).)*?\*\/)/gcs) { $statement .= ' ' . $& if length $statement; next }
        if ($sql =~ /\G\b[eE]'(?:[^'\\]|\\.|'')*'/gcs
            || $sql =~ /\G'[^']*'/gc
            || $sql =~ /\G"[^"]*"/gc
            || $sql =~ /\G\$(\w*)\$.*?\$\1\$/gcs
            || $sql =~ /\G(?:\w[\w\$]*|::|\$\d+)/gc
            || $sql =~ /\G(?:[()]|[^()\\:'"\$;\w\s\/-]+|[\/-])/gc
            || $sql =~ /\G:(?![\w'"{])/gc)
        {
            my $token = $&;
            $depth += ($token eq '(') - ($token eq ')');
            $statement .= $token;
            next;
        }
        return unless $sql =~ /\G;/gc && $depth == 0;
        push @statements, $statement if length $statement;
        $statement = '';
    }
    return @statements, length $statement ? $statement : ();
}

# Returns whether these statements affect later statements of the session only through the data.
sub are_harmless
{
    for my $statement (@_)
    {
        my $text = $statement =~ s/'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$//gsr =~ s/\bINTO\s+[\w.]+/INTO/rig;
        return 0 if $text !~ /\A\s*(?:INSERT|UPDATE|DELETE|SELECT)\b/i;
        return 0 if grep { !$HARMLESS{ lc $_ } } $text =~ /([\w.]+)\s*\(/g;
    }
    return 1;
}

# Returns a session on this server; undef if the server rejects the connection.
sub connect
{
    my ($class, $host, $port, $database) = @_;
    my $socket = IO::Socket::UNIX->new(Peer => "$host/.s.PGSQL.$port") or return;
    my $self   = bless { socket => $socket, owner => $$ }, $class;
    my %options = (user => scalar getpwuid $>, database => $database, application_name => 'psql');
    local $SIG{PIPE} = 'IGNORE';
    my $packet = pack 'N', $PROTOCOL;
    $packet .= pack 'Z* Z*', $_, $options{$_} for sort keys %options;
    print {$socket} pack('N', 5 + length $packet), $packet, "\0";
    $socket->flush;
    while (my ($type, $body) = $self->message)
    {
        return $self if $type eq 'Z';
        return if $type eq 'E' || $type eq 'R' && unpack('N', $body) != 0;
    }
    return;
}

# Returns type and body of the server's next message; empty after the connection has closed.
sub message
{
    my ($self) = @_;
    read($self->{socket}, my $head, 5) == 5 or return;
    my ($type, $len) = unpack 'a N', $head;
    return ($type, '') if $len == 4;
    read($self->{socket}, my $body, $len - 4) == $len - 4 or return;
    return ($type, $body);
}

# Returns false if the server has sent data, or closed the connection, since the last statement.
sub is_idle { return !IO::Select->new($_[0]{socket})->can_read(0) }

# Runs the statements up to the first error. Returns psql's exit status, the output, the errors and the notices.
sub run
{
    my ($self, @statements) = @_;
    my $status = 0;
    @{$self}{qw(out err)} = ('', '');
    local $SIG{PIPE} = 'IGNORE';
    for my $statement (@statements)
    {
        last if $status;
        utf8::encode($statement) if utf8::is_utf8($statement);
        $status = $self->run_one($statement);
    }
    chomp @{$self}{qw(out err)};
    return ($status, @{$self}{qw(out err)});
}

# Ends the session on the server. A forked child must not end its parent's session.
sub DESTROY
{
    my ($self) = @_;
    return if $self->{owner} != $$;
    local ($!, $@, $?);
    local $SIG{PIPE} = 'IGNORE';
    print { $self->{socket} } pack 'a N', 'X', 4;
    close $self->{socket};
    return;
}

sub run_one
{
    my ($self, $statement) = @_;
    my $status = 0;
    print { $self->{socket} } pack 'a N Z*', 'Q', 5 + length $statement, $statement;
    $self->{socket}->flush;
    while (my ($type, $body) = $self->message)
    {
        return $status if $type eq 'Z';
        if    ($type eq 'D') { $self->{out} .= row($body) }
        elsif ($type eq 'N') { $self->{err} .= report($body) }
        elsif ($type eq 'E') { $self->{err} .= report($body); $status = 3 }
    }
    $self->{err} .= "server closed the connection unexpectedly\n";
    return 2;
}

sub row
{
    my ($body) = @_;
    my ($count, @columns) = unpack 'n', $body;
    my $at = 2;
    for (1 .. $count)
    {
        my $len = unpack 'l>', substr $body, $at, 4;
        push @columns, $len < 0 ? '' : substr $body, $at + 4, $len;
        $at += 4 + ($len < 0 ? 0 : $len);
    }
    return join('|', @columns) . "\n";
}

# Returns an error or a notice as psql prints it.
sub report
{
    my ($body) = @_;
    my %field = map { substr($_, 0, 1) => substr $_, 1 } grep { length } split /\0/, $body;
    my $text  = "psql:<stdin>:1: $field{S}:  $field{M}\n";
    my @more  = ([ D => 'DETAIL' ], [ H => 'HINT' ], [ q => 'QUERY' ], $field{V} =~ /^(?:ERROR|FATAL|PANIC)$/ ? [ W => 'CONTEXT' ] : ());
    $text .= "$_->[1]:  $field{ $_->[0] }\n" for grep { defined $field{ $_->[0] } } @more;
    return $text;
}

1;
