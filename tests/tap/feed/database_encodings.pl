# Tests that the feed converts members like the decoder, in a database with another encoding and for members that UTF-8
# cannot represent.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, start => 0);
my $E     = "\xE9";
my $BAD   = "\x{FFFD}";

# Returns a byte in this encoding, and its conversion.
my @cases = (
    [ ascii => 'SQL_ASCII', '\351', "caf$BAD" ],
    [ ascii_too => 'SQL_ASCII', '\303\251', "caf$E" ],
    [ latin => 'LATIN1', '\351', "caf$E" ],
    [ win => 'WIN1252', '\201', "caf$BAD" ]);
for my $case (@cases)
{
    my ($database, $encoding, $byte, $converted) = @$case;
    my $text = "convert_from('caf$byte', '$encoding')";
    $pg->safe_psql('postgres', "CREATE DATABASE $database ENCODING '$encoding' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    $pg->safe_psql($database, "CREATE EXTENSION clairon; CREATE TABLE t (id int PRIMARY KEY, team text);
        SELECT clairon.watch('t', 'TEAM', 'team');
        INSERT INTO clairon.member VALUES ('TEAM', $text, 'u1'), ('TEAM', $text, 'left')");
    $relay->configure('feed.conninfo' => $pg->connstr($database) . ' user=relay', 'feed.slot' => $database);
    $relay->start;
    $relay->wait_ready;
    is_deeply([ sort @{ $store->execute('SMEMBERS', $store->shared("members:TEAM:$converted")) // [] } ], [qw(left u1)], "$database: the membership copy converts members");
    my $client = $relay->client('u1');
    $pg->safe_psql($database, "DELETE FROM clairon.member WHERE user_id = 'left'; INSERT INTO t VALUES (1, $text)");
    wait_until("$database: a member has left", sub { @{ $store->execute('SMEMBERS', $store->shared("members:TEAM:$converted")) } == 1 });
    pass("$database: membership changes are converted");
    $client->wait_row(1);
    pass("$database: the converted members receive rows");
    $relay->stop;
    $pg->drop_slot($database);
    $store->execute('FLUSHALL');
}

done_testing();
